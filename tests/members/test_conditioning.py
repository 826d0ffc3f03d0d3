from __future__ import annotations

import pytest
import torch
from builders.models import normal, small_rows
from builders.neighbours import assert_close, neighbour_model

from sswim.members import FeatureMember, NeighbourMember, condition
from sswim.rows import Measure


def test_the_architecture_decides_how_a_model_is_conditioned(generator: torch.Generator) -> None:
    rows, inputs = small_rows(generator), Measure(normal(generator, 5, 3))
    model = neighbour_model(rows, generator, n_neighbors=5)
    expected = NeighbourMember.condition_on(model, rows)
    for given in (rows, [rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])]):
        found = condition(model, given)
        assert isinstance(found, NeighbourMember)
        assert_close(found.predict(inputs), expected.predict(inputs), 1e-14)
    assert isinstance(condition(neighbour_model(rows, generator, 0), rows), FeatureMember)
    with pytest.raises(NotImplementedError):
        expected.log_evidence()
