from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sswim.record import Record


@dataclass(frozen=True)
class Leaf(Record):
    tensor: Tensor
    missing: Tensor | None = None


@dataclass(frozen=True)
class Tree(Record):
    first: Leaf
    others: tuple[Leaf, ...]
    name: str


def tree() -> Tree:
    return Tree(Leaf(torch.zeros(2)), (Leaf(torch.ones(1)), Leaf(torch.full((3,), 2.0))), "oak")


def test_tensors_come_in_the_order_of_the_fields() -> None:
    assert [len(tensor) for tensor in tree().tensors()] == [2, 1, 3]


def test_map_keeps_the_structure() -> None:
    mapped = tree().map(lambda tensor: tensor + 1)
    assert isinstance(mapped, Tree)
    assert mapped.name == "oak"
    assert mapped.first.missing is None
    assert [tensor[0].item() for tensor in mapped.tensors()] == [1, 2, 3]


def test_leaves_collect_gradients_without_touching_the_original() -> None:
    weight = torch.ones(2, requires_grad=True)
    leaf = Leaf(weight * 3)
    cut = leaf.leaves()
    cut.tensor.sum().backward()
    assert weight.grad is None
    assert torch.equal(cut.tensor.grad, torch.ones(2))  # type: ignore[arg-type]


def test_to_converts_every_tensor() -> None:
    converted = tree().to(dtype=torch.float64)
    assert {tensor.dtype for tensor in converted.tensors()} == {torch.float64}
