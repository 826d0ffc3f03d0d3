"""Checks and conversions of settings, amounts of memory, seeds, text, frames and devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Literal

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from builders.commands import run_python
from builders.models import unchecked
from scipy import sparse

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import (
    UserError,
    as_bytes,
    draw_generator,
    is_frame,
    is_geo_frame,
    is_missing,
    is_pandas,
    require_choice,
    require_integer,
    require_level,
    require_positive,
    require_restartable,
    require_tail,
    visible,
)
from sswim.distributed.processes import available_device, resolve_device
from sswim.estimator.model_file import ModelFileError
from sswim.members.checkpoints import CheckpointError
from sswim.tables import TableError

Colour = Literal["red", "blue"]
Case = tuple[Callable[..., object], tuple[Any, ...]]


class Restartable:
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


ACCEPTED: list[Case] = [
    (require_choice, ("colour", "red", Colour)),
    *((require_integer, ("n", value, 2)) for value in (2, 3, np.int64(2))),
    *((require_level, (level,)) for level in (1e-9, 0.5, 0.999, 1 - 1e-14)),
    *((require_positive, ("rate", value)) for value in (2, np.float32(0.1))),
    *((require_restartable, (chunks,)) for chunks in ([], [1], (1, 2), Restartable())),
]
REFUSED: dict[str, list[Case]] = {
    r"colour must be one of \('red', 'blue'\)\. Got 'green'\.": [
        (require_choice, ("colour", "green", Colour))
    ],
    r"n must be an integer of at least 2\. Got ": [
        (require_integer, ("n", value, 2)) for value in (1, -5, 2.0, "2", True, None)
    ],
    "n must be at most 8": [(require_integer, ("n", 9, 2, 8))],
    r"level must lie between 0 and 1\. Got ": [
        (require_level, (level,)) for level in (0.0, 1.0, -0.1, 90.0, math.nan)
    ],
    r"level must leave tails of at least 1e-15.* Got 0\.99": [(require_level, (1 - 1e-16,))],
    r"p must leave tails .* Got 1e-300, which leaves 1e-300": [
        (require_tail, ("p", 1e-300, 1e-300))
    ],
    "rate must be positive and finite. Got ": [
        (require_positive, ("rate", value))
        for value in (0, -1, math.nan, math.inf, None, "much", True, 1j, [1.0])
    ],
    "Got a list_iterator, which can be read once; make a list": [
        (require_restartable, (iter([1]),))
    ],
    "memory must be a number of bytes, or text like '2GiB'": [
        (as_bytes, (amount,)) for amount in (-1, "-1", True, "", "GiB", "2 PB", "2 GB of memory")
    ],
}


def test_right_values_pass_and_others_are_refused() -> None:
    for check, arguments in ACCEPTED:
        check(*arguments)
    for message, cases in REFUSED.items():
        for check, arguments in cases:
            with pytest.raises(UserError, match=message):
                check(*arguments)


def test_mistakes_of_users_are_value_errors_of_one_class() -> None:
    for error in (TableError, CheckpointError, ModelFileError):
        assert issubclass(error, UserError)
    assert issubclass(UserError, ValueError)
    assert not issubclass(FactorisationError, UserError)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        *((0, 0), (123, 123), ("123", 123), ("123 B", 123), ("1KB", 2**10), ("1KiB", 2**10)),
        *(("500 MB", 500 * 2**20), ("2GiB", 2 * 2**30), ("2g", 2 * 2**30), ("1T", 2**40)),
        (" 1.5 GiB ", 3 * 2**29),
    ],
)
def test_amounts_are_bytes(amount: int | str, expected: int) -> None:
    assert as_bytes(amount) == expected


def test_seeds_make_generators() -> None:
    first, again, other = (draw_generator(seed).initial_seed() for seed in (1, 1, 2))
    assert first == again != other
    assert draw_generator(0).device == torch.device("cpu")
    # NumPy's generators give another one each time.
    random, same = np.random.RandomState(1), np.random.RandomState(1)
    seeds = [draw_generator(random).initial_seed() for _ in range(3)]
    assert len(set(seeds)) == 3
    assert [draw_generator(same).initial_seed() for _ in range(3)] == seeds
    assert seeds[0] == first


def test_control_characters_become_escapes_and_joiners_stay() -> None:
    assert visible("red \x1b[31m, \x9b2J, \r, \x00, \u202e, \udcff, é") == (
        r"red \x1b[31m, \x9b2J, \r, \x00, \u202e, \udcff, é"
    )
    assert visible("a\tb\nक्\u200dष") == "a\tb\nक्\u200dष"


class OtherFrame:
    """A frame of another library, by Arrow's interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"a": [1]}).__arrow_c_stream__(requested_schema)


def test_frames_of_every_library_are_known() -> None:
    column = {"a": [1]}
    geo = geopandas.GeoDataFrame(column, geometry=geopandas.points_from_xy([0], [0]))
    frames: list[Any] = [pd.DataFrame(column), geo, pl.DataFrame(column), pa.table(column)]
    for frame in (*frames, pa.record_batch(column), OtherFrame()):
        assert is_frame(frame)
        assert is_pandas(frame) == isinstance(frame, pd.DataFrame)
        assert is_geo_frame(frame) == (frame is geo)
    others: list[Any] = [np.zeros((2, 2)), torch.zeros(2, 2), [[1.0]], "path.csv", None, 3, column]
    for other in (
        *others,
        pd.Series([1]),
        pl.Series([1]),
        sparse.csr_array([[1.0]]),
        pa.array([1]),
    ):
        assert not any(check(other) for check in (is_frame, is_pandas, is_geo_frame))


def test_no_library_of_frames_is_imported_to_know_them() -> None:
    program = (
        "import sys\n"
        "from sswim.base.validation import is_frame, is_geo_frame\n"
        "assert not is_frame([[1.0]]) and not is_geo_frame([[1.0]])\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'geopandas'} & set(sys.modules)))"
    )
    result = run_python("-c", program)
    assert result.stdout.strip() == "[]", result.stderr


def test_missing_values_of_every_library_are_known() -> None:
    nan, times = float("nan"), (np.datetime64("NaT"), np.timedelta64("NaT"), pd.NaT)
    for value in (None, nan, np.float32(nan), np.float64(nan), pd.NA, *times, Decimal("NaN")):
        assert is_missing(value)
    for value in (0, 0.0, "", "nan", np.inf, False, Decimal(0), [], np.float32(1), pd.Timestamp(0)):
        assert not is_missing(value)


@pytest.mark.parametrize(("available", "automatic"), [(True, "cuda"), (False, "cpu")])
def test_the_automatic_device_is_a_gpu_if_there_is_one(
    available: bool, automatic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert resolve_device("auto") == torch.device(automatic)
    assert available_device("auto") == available_device("cuda:99") == torch.device(automatic)
    for device in ("cpu", torch.device("cpu", 0)):
        assert resolve_device(device) == available_device(device) == torch.device(device)


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "", None, torch.device("cuda:99")])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(name: Any) -> None:
    message = r'device must be "auto" or a device that this machine has.* Got .*; there .*"cpu"'
    with pytest.raises(UserError, match=message):
        unchecked(resolve_device, device=name)
