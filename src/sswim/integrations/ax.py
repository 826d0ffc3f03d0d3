"""SSWIM as the surrogate of Ax.

    client = ax.Client()
    client.configure_experiment(parameters)
    client.configure_optimization(objective="-loss")
    client.set_generation_strategy(generation_strategy())

Importing this module also tells Ax how to make, fit, save and load the model, so a
``ModelConfig(botorch_model_class=SSWIMModel)`` works in any generation strategy.
"""

from __future__ import annotations

from typing import Any

import torch
from ax.api.utils.generation_strategy_dispatch import choose_generation_strategy
from ax.api.utils.structs import GenerationStrategyDispatchStruct
from ax.core.search_space import SearchSpaceDigest
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generators.torch.botorch_modular.surrogate import ModelConfig, submodel_input_constructor
from ax.generators.torch.botorch_modular.utils import fit_botorch_model
from ax.storage.botorch_modular_registry import register_model
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import SupervisedDataset

from sswim.integrations.botorch import SSWIMModel

__all__ = ["generation_strategy"]


def generation_strategy(**options: Any) -> GenerationStrategy:
    """Return Ax's usual generation strategy, with SSWIM in place of its Gaussian process.

    It tries the centre of the search space, then quasi-random points, five in all, and then what
    the acquisition function of Ax's choice suggests. One strategy serves one client.

    Args:
        options: Arguments of ``Client.configure_generation_strategy`` other than the method, such
            as ``initialization_budget`` and ``initialization_random_seed``.
    """
    model_config = ModelConfig(botorch_model_class=SSWIMModel, name="SSWIM")
    struct = GenerationStrategyDispatchStruct(method="custom", **options)
    return choose_generation_strategy(struct, model_config)


@submodel_input_constructor.register(SSWIMModel)  # type: ignore[untyped-decorator]
def _construct_inputs(
    model_class: type[SSWIMModel],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: object,
) -> dict[str, Any]:
    """Return the arguments of the model; its inputs are scaled by the bounds of the search space.

    Other fields of the configuration than ``model_options`` have no meaning for the model.
    """
    bounds = torch.tensor(search_space_digest.bounds).to(dataset.X).T
    return {
        **model_class.construct_inputs(dataset),
        **model_config.model_options,
        "input_transform": Normalize(bounds.shape[1], bounds=bounds),
    }


@fit_botorch_model.register(SSWIMModel)  # type: ignore[untyped-decorator]
def _fit(model: SSWIMModel, mll_class: object, mll_options: object = None) -> None:
    """Do nothing: the model is fitted when it is made."""


register_model(SSWIMModel)
