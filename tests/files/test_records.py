from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch
from builders.forgeries import forged_tensors
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.files.records import (
    Between,
    from_json,
    from_tensors,
    require_all_taken,
    take_part,
    to_json,
    to_tensors,
)


@dataclass(frozen=True)
class Part:
    share: Annotated[float, Between(0, 1)]
    label: str | None


@dataclass(frozen=True)
class Whole:
    count: int
    rate: float
    is_new: bool
    choice: Literal["a", "b"]
    pair: tuple[int, float]
    parts: tuple[Part, ...]
    texts: dict[str, str]
    either: int | Part
    more: Any


WHOLE = Whole(
    3, 0.5, True, "b", (1, 2.0), (Part(0.25, None), Part(1.0, "x")), {"k": "v"}, Part(0.0, ""), None
)


def test_a_record_comes_back_from_json() -> None:
    content = json.loads(json.dumps(to_json(WHOLE)))
    assert from_json(Whole, content, "it") == WHOLE
    assert from_json(Whole, content | {"either": 4, "rate": 2}, "it") == replace(
        WHOLE, either=4, rate=2.0
    )
    assert to_json({"a": (np.int64(3), [np.float64(0.5)])}) == {"a": [3, [0.5]]}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("count", -1, "count must be an integer between 0 and 2147483647, not -1"),
        ("count", 10**30, "count must be an integer between 0"),
        ("count", True, "count must be an integer"),
        ("count", 1.0, "count must be an integer"),
        ("rate", float("nan"), "rate must be a number between"),
        ("rate", float("inf"), "rate must be a number between"),
        ("rate", "1", "rate must be a number between .*, not '1'"),
        ("is_new", 1, "is_new must be true or false, not 1"),
        ("choice", "c", r"choice must be one of \('a', 'b'\), not 'c'"),
        ("choice", ["a"], "choice must be one of"),
        ("pair", [1], r"pair must be a list of 2, not \[1\]"),
        ("pair", {}, "pair must be a list"),
        ("parts", [{"share": 1.5, "label": None}], "share must be a number between 0 and 1"),
        ("parts", [{"share": 1.0, "label": 3}], "label must be a text, not 3"),
        ("parts", [[]], r"an entry of parts must be an object, not \[\]"),
        ("parts", [{"share": 1.0}], r"must have \['label', 'share'\], and differs in \['label'\]"),
        ("parts", [{"share": 1.0, "label": None, "x": 1}], r"differs in \['x'\]"),
        ("texts", {"k": 1}, "texts.k must be a text"),
        ("texts", None, "texts must be an object"),
        ("either", "x" * 10_000, "either must be an object, not 'x.{0,30}"),
    ],
)
def test_other_json_is_refused_with_one_line(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_json(Whole, to_json(WHOLE) | {field: value}, "it")
    assert len(str(caught.value)) < 200


def test_what_is_no_object_is_refused() -> None:
    nothing: tuple[Any, ...] = (None, [], "text", 3, {})
    for content in nothing:
        with pytest.raises(ValueError, match="it must"):
            from_json(Whole, content, "it")


@dataclass(frozen=True)
class Tensors:
    rows: Float[Tensor, "*B N D"]
    number: Int64[Tensor, " N"]
    limit: Float64[Tensor, ""]
    own: Float64[np.ndarray, "D D"]
    weight: Float64[Tensor, " N"] | None = None


TENSORS = Tensors(
    torch.rand(3, 2),
    torch.arange(3),
    torch.tensor(2.0, dtype=torch.float64),
    np.eye(2),
    torch.ones(3, dtype=torch.float64),
)


@pytest.mark.parametrize("record", [TENSORS, replace(TENSORS, weight=None)], ids=["all", "few"])
def test_a_record_comes_back_from_tensors(record: Tensors) -> None:
    tensors = to_tensors(record, "a.b") | {"rest": torch.zeros(1)}
    sizes = {"D": 2}
    found = from_tensors(Tensors, tensors, "a.b", sizes)
    assert sizes == {"D": 2, "N": 3}
    assert isinstance(found.own, np.ndarray)
    ours, theirs = to_tensors(found, "x"), to_tensors(record, "x")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    with pytest.raises(ValueError, match="there is a tensor 'rest', which nothing needs"):
        require_all_taken(tensors)
    assert take_part(tensors | {"part.a.b": torch.ones(2)}, "part").keys() == {"a.b"}


def test_a_batch_has_as_many_members_as_it_must() -> None:
    rows = TENSORS.rows[None].expand(2, -1, -1)
    tensors = to_tensors(replace(TENSORS, rows=rows), "it")
    assert torch.equal(from_tensors(Tensors, dict(tensors), "it", {"*B": 2}).rows, rows)
    for n_members in (None, 3):
        sizes = {} if n_members is None else {"*B": n_members}
        with pytest.raises(ValueError, match=r"the tensor 'it\.rows' must have shape"):
            from_tensors(Tensors, dict(tensors), "it", sizes)


@pytest.mark.parametrize("name", ["rows", "number", "limit", "own", "weight"])
def test_tensors_of_another_form_are_refused(name: str) -> None:
    tensors = to_tensors(TENSORS, "it")
    tensor = tensors[f"it.{name}"]
    for forged in forged_tensors(tensor):
        alike = forged.shape == tensor.shape and forged.dtype == tensor.dtype
        if not (alike and forged.isfinite().all()):
            with pytest.raises(ValueError, match=f"the tensor 'it.{name}'"):
                from_tensors(Tensors, tensors | {f"it.{name}": forged}, "it", {"D": 2, "N": 3})


def test_missing_tensors_and_huge_shapes_are_refused() -> None:
    tensors = to_tensors(TENSORS, "it")
    with pytest.raises(ValueError, match=r"there is no tensor 'it\.limit'"):
        from_tensors(Tensors, {k: v for k, v in tensors.items() if k != "it.limit"}, "it", {})
    huge = torch.empty(10**9, 10**6, device="meta")
    with pytest.raises(ValueError, match=r"shape \(1000000000, 2\) and type float32 or float64"):
        from_tensors(Tensors, tensors | {"it.rows": huge}, "it", {"D": 2})


def test_infinity_may_have_a_meaning() -> None:
    tensors = to_tensors(TENSORS, "it") | {"it.limit": torch.tensor(torch.inf).double()}
    assert from_tensors(Tensors, dict(tensors), "it", {}, infinite=["limit"]).limit == torch.inf
    with pytest.raises(ValueError, match="NaN or infinite values"):
        from_tensors(Tensors, tensors, "it", {})
