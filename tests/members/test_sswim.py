from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import small_model, small_rows

from sswim.kernels.features import expected_features
from sswim.members.model import row_features


@torch.no_grad()
def test_depth_zero_is_the_stationary_ssgp(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, depth=0)
    factors, prior = model.factors()
    assert prior.warps == 0
    assert prior.density == 0
    expected = expected_features(model.spectrum.frequencies(), rows.inputs)
    assert torch.equal(row_features(factors, rows.inputs), expected)


def test_warps_may_have_fewer_frequencies(generator: torch.Generator) -> None:
    model = small_model(small_rows(generator), generator, depth=2, n_warp_frequencies=4)
    assert model.spectrum.unit_frequencies.shape == (6, 3)
    for layer in model.warp_layers():
        for gp in layer.gps():
            assert gp.spectrum.unit_frequencies.shape == (4, 3)


@pytest.mark.parametrize("changes", [{}, {"depth": 0, "inputs": "normal-scores"}], ids=str)
def test_the_state_dict_holds_the_whole_model(
    changes: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, **changes)
    copy = type(model)(model.architecture, model.n_inputs, model.n_targets)
    copy.load_state_dict(model.state_dict())
    ours, theirs = (row_features(m.factors()[0], rows.inputs) for m in (copy, model))
    assert torch.equal(ours, theirs)
