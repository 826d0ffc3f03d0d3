"""Model files with damaged bytes, and forged ones with any content under a right checksum."""

from __future__ import annotations

import functools
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from builders.forgeries import (
    Damage,
    Forgery,
    TensorEdit,
    damaged,
    damages,
    edited,
    forgeries,
)
from builders.fuzzing import count_refusal, fuzz
from builders.model_files import KINDS, inputs, load_bytes, model_bytes, model_content
from hypothesis import example
from hypothesis import strategies as st

from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor
from sswim.estimator.model_file import MODEL, ModelFileError

SECONDS = 1.0
"""Time of a core in which a file is refused, or loaded and used."""

MEBIBYTES = 256
"""Memory that a file may take, if no file before it took more."""

LONGEST_MESSAGE = 3000

PROBABILITIES = (0.05, 0.5, 0.95)


@pytest.fixture(autouse=True, scope="module")
def _fitted() -> None:
    """Fit before Hypothesis draws: strategies must not use random numbers of their own."""
    for kind in KINDS:
        model_content(kind)


@contextmanager
def bounded() -> Iterator[None]:
    """Check that a step takes little time and memory."""
    seconds, memory = time.process_time(), _peak()
    yield
    assert time.process_time() - seconds < SECONDS
    assert _peak() - memory < MEBIBYTES


def _peak() -> float:
    """Return the largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def loaded(data: bytes) -> BaseRegressor | None:
    """Load a model; None if the file is refused in the right way."""
    with bounded():
        try:
            return load_bytes(data)
        except ModelFileError as error:
            message = str(error)
    assert len(message) < LONGEST_MESSAGE
    count_refusal()
    return None


@functools.cache
def expected(kind: str) -> np.ndarray[Any, Any]:
    """Return the predictions of a model before any damage."""
    return load_bytes(model_bytes(kind)).predict_quantiles(inputs(kind), PROBABILITIES)


@fuzz(
    small=40, full=10_000, part=1000, limit=20.0, kind=st.sampled_from([*KINDS]), changes=damages()
)
@example(kind="targets", changes=(Damage("end", 1.0),))
def test_a_damaged_model_is_refused_or_is_the_same(kind: str, changes: tuple[Damage, ...]) -> None:
    regressor = loaded(damaged(model_bytes(kind), changes))
    if regressor is not None:
        found = regressor.predict_quantiles(inputs(kind), PROBABILITIES)
        np.testing.assert_array_equal(found, expected(kind))


@fuzz(small=40, full=10_000, part=250, limit=20.0, forgery=forgeries(KINDS, model_content))
# The k-d tree has no neighbours at infinite distances: it was an IndexError.
@example(
    Forgery("neighbours", (TensorEdit("members.0.model.normal_scores.knots", "times", 1e-300),))
)
# Quantiles were infinite.
@example(Forgery("warps", (TensorEdit("scaling.target_spread", "fill", 1.6e308),)))
def test_a_forged_model_is_refused_or_predicts(forgery: Forgery) -> None:
    tensors, content = edited(*model_content(forgery.kind), forgery.changes)
    regressor = loaded(MODEL.to_bytes(tensors, content))
    if regressor is None:
        return
    with bounded():
        try:
            require_numbers(regressor, inputs(forgery.kind))
        except UserError:
            count_refusal()


def require_numbers(regressor: BaseRegressor, rows: Any) -> None:
    """Check that predictions are finite, and quantiles ordered."""
    mean, std = regressor.predict(rows, return_std=True)
    quantiles = regressor.predict_quantiles(rows, PROBABILITIES)
    for values in (mean, std, quantiles, regressor.predict(rows)):
        assert np.isfinite(values).all()
    assert (std >= 0).all()
    assert (np.diff(quantiles, axis=-1) >= 0).all()
