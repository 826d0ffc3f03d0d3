from __future__ import annotations

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.members import supervised_directions as directions
from sswim.members.supervised_directions import supervised_directions
from sswim.rows import Rows, as_rows
from sswim.warps.projection import principal_directions


def ridge_rows(generator: torch.Generator, n: int = 300) -> tuple[Rows, Tensor]:
    """Draw targets that change along two directions of eight inputs, three times faster in one."""
    x = normal(generator, n, 8)
    basis = torch.linalg.qr(normal(generator, 8, 2))[0].mT
    y = (1.5 * x @ basis[0]).sin() + 0.3 * x @ basis[1] + 0.05 * normal(generator, n)
    return as_rows(x, y), basis


def angle(found: Tensor, expected: Tensor) -> float:
    """Return the cosine between two directions."""
    return torch.nn.functional.cosine_similarity(found, expected, dim=0).abs().item()


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_directions_along_which_targets_change_come_first(generator: torch.Generator) -> None:
    rows, basis = ridge_rows(generator)
    found = supervised_directions(rows, 3, seeded())
    sizes = found.norm(dim=-1)
    assert angle(found[0], basis[0]) > 0.97
    axes = torch.linalg.qr(found.mT)[0]
    assert (axes @ axes.mT @ basis[1]).norm() > 0.9  # nearly in their span
    assert sizes[0] > 2 * sizes[1]
    assert sizes[1] > sizes[2]


def test_the_order_of_rows_and_their_copies_change_nothing(generator: torch.Generator) -> None:
    rows, _ = ridge_rows(generator, 60)
    expected = supervised_directions(rows, 2, seeded())
    order = torch.randperm(60, generator=generator)
    shuffled = supervised_directions(rows.take(order), 2, seeded())
    twice = supervised_directions(rows.take(torch.cat((order, order[:20]))), 2, seeded())
    weight = torch.ones(60, dtype=torch.float64)
    weight[:20] = 2
    weighted = Rows(rows.inputs.map(lambda x: x[order]), rows.targets[order], weight)
    assert torch.equal(expected, shuffled)
    assert torch.allclose(twice, supervised_directions(weighted, 2, seeded()), rtol=1e-9)


def test_more_directions_than_inputs_are_random(generator: torch.Generator) -> None:
    rows, _ = ridge_rows(generator, 60)
    found = supervised_directions(rows, 11, seeded())
    assert found.shape == (11, 8)
    assert torch.allclose(found[8:].norm(dim=-1), found[:8].square().sum(-1).mean().sqrt())


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_and_constant_columns_have_finite_directions(
    n: int, generator: torch.Generator
) -> None:
    x = normal(generator, n, 3)
    x[:, 1] = 0
    found = supervised_directions(as_rows(x, torch.zeros(n)), 2, seeded())
    assert found.shape == (2, 3)
    assert found.isfinite().all()


def test_principal_directions_stand_in_where_no_model_can_be_trained(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FactorisationError("no")

    rows, _ = ridge_rows(generator, 60)
    monkeypatch.setattr(directions, "train", fail)
    x = rows.inputs.mean.unique(dim=0)
    found = supervised_directions(rows, 2, seeded())
    assert torch.allclose(found.abs(), principal_directions(x, 2, seeded()).abs())


def test_principal_directions_are_orthonormal_and_the_widest_first(
    generator: torch.Generator,
) -> None:
    spreads = torch.tensor([0.5, 3.0, 1.0], dtype=torch.float64)
    x = spreads * normal(generator, 500, 3)
    found = principal_directions(x, 3, generator)
    assert torch.allclose(found @ found.mT, torch.eye(3, dtype=torch.float64), atol=1e-12)
    assert found.abs().argmax(-1).tolist() == [1, 2, 0]
