"""Options of the commands, which are spelt out there so that help needs no heavy imports."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, get_args, get_type_hints

import pytest

from sswim import NeighbourGPRegressor, SSWIMRegressor, WarpedGPRegressor
from sswim.cli.evaluate import evaluate
from sswim.cli.fit import fit
from sswim.cli.options import csv_options
from sswim.cli.predict import predict
from sswim.distributed.processes import TIMEOUT
from sswim.estimator.settings import DType, ObjectiveName
from sswim.kernels.features import Kernel
from sswim.members.checkpoints import Checkpoints
from sswim.members.model import NoiseName, WarpsName
from sswim.tables import CsvOptions
from sswim.warps.output_warp import OutputWarpName


def default(function: Callable[..., Any], name: str) -> Any:
    return signature(function).parameters[name].default


def test_fit_has_an_option_for_every_setting_that_leaves_it_to_the_estimator() -> None:
    kinds = (SSWIMRegressor, WarpedGPRegressor, NeighbourGPRegressor)
    settings = {name for kind in kinds for name in kind().get_params()}
    options = signature(fit).parameters.keys()
    assert settings - options == {"callback", "recipe"}
    given = {name for name in settings & options if default(fit, name) is not None}
    assert given == {"device", "verbose"}  # the command line shows progress
    assert default(fit, "device") == SSWIMRegressor().device


def test_other_defaults_are_those_of_python() -> None:
    assert default(fit, "memory") == default(SSWIMRegressor.fit, "memory")
    assert default(fit, "every") == Checkpoints("folder").every
    for command in (fit, predict, evaluate):
        assert default(command, "memory") == default(fit, "memory")
        assert default(command, "timeout") == TIMEOUT.total_seconds()
    for command in (predict, evaluate):
        assert default(command, "level") == default(SSWIMRegressor.predict_interval, "level")


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("warps", WarpsName),
        ("kernel", Kernel),
        ("output_warp", OutputWarpName),
        ("noise", NoiseName),
        ("objective", ObjectiveName),
        ("dtype", DType),
    ],
)
def test_help_names_all_choices(name: str, choices: Any) -> None:
    option = get_type_hints(fit, include_extras=True)[name].__metadata__[0]
    listed = option.help.removeprefix("One model: ").partition(":")[0].removesuffix(".")
    assert sorted(listed.replace(" or ", ", ").split(", ")) == sorted(get_args(choices))


@pytest.mark.parametrize(
    ("word", "separator"), [(None, None), (";", ";"), ("tab", "\t"), ("\\t", "\t"), ("blanks", " ")]
)
def test_separators_have_words(word: str | None, separator: str | None) -> None:
    assert csv_options(word, ",", None, None, True) == CsvOptions(
        separator, ",", None, None, keep_index=True
    )
