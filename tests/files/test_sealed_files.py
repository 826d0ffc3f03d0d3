from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sswim.files.sealed_files import SealedFormat, differences

ADVICE = "Pour it again."


class TeaError(ValueError):
    pass


TEA = SealedFormat("tea", 3, TeaError, ADVICE)
TENSORS = {
    "leaves": torch.arange(6, dtype=torch.float64).reshape(2, 3),
    "water": torch.tensor([1, 2], dtype=torch.int64),
    "transposed": torch.arange(6.0).reshape(2, 3).mT,
}
CONTENT = {"name": "Assam", "minutes": 4, "with": {"milk": True}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cup"
    TEA.write(path, TENSORS, CONTENT)
    return path


def test_what_is_written_is_read(path: Path) -> None:
    tensors, content = TEA.read(path)
    assert content == CONTENT
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_bytes_are_those_of_a_file(path: Path) -> None:
    data = TEA.to_bytes(TENSORS, CONTENT)
    assert data == path.read_bytes()
    tensors, content = TEA.from_bytes(data, "This cup")
    assert content == CONTENT
    assert torch.equal(tensors["leaves"], TENSORS["leaves"])
    with pytest.raises(TeaError, match="This cup is not a sswim tea, or it is damaged"):
        TEA.from_bytes(data[:-1], "This cup")


def test_equal_content_makes_equal_files(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    TEA.write(other, dict(reversed(list(TENSORS.items()))), dict(reversed(list(CONTENT.items()))))
    assert other.read_bytes() == path.read_bytes()


def test_tensors_that_collect_gradients_are_written(tmp_path: Path) -> None:
    TEA.write(tmp_path / "cup", {"a": torch.ones(2, requires_grad=True)}, {})
    assert torch.equal(TEA.read(tmp_path / "cup")[0]["a"], torch.ones(2))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TeaError, match=r"The tea file '.*nothing' cannot be read"):
        TEA.read(tmp_path / "nothing")


@pytest.mark.parametrize("content", [b"", b"tea", b"\x02\0\0\0\0\0\0\0[]"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "cup").write_bytes(content)
    with pytest.raises(TeaError, match=rf"is not a sswim tea, or it is damaged: .*{ADVICE}"):
        TEA.read(tmp_path / "cup")


def test_other_safetensors_files_are_refused(path: Path, tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "plain")
    with pytest.raises(TeaError, match="a safetensors file, but not a sswim tea"):
        TEA.read(tmp_path / "plain")
    with pytest.raises(TeaError, match="a safetensors file, but not a sswim coffee"):
        replace(TEA, noun="coffee").read(path)


def test_another_version_is_refused(path: Path) -> None:
    with pytest.raises(TeaError, match="has tea format 3; this sswim reads format 4"):
        replace(TEA, version=4).read(path)


def test_every_part_of_the_file_is_under_the_checksum(path: Path) -> None:
    original = path.read_bytes()
    length = int.from_bytes(original[:8], "little")
    content = json.dumps(CONTENT, sort_keys=True)
    assert b"Assam" in original[8 : 8 + length]
    altered = {
        "content": original.replace(b"Assam", b"Ceylon"[:5]),
        "tensor": original[:-1] + bytes([original[-1] ^ 1]),
        "name": original.replace(b'"leaves"', b'"loaves"'),
    }
    for data in altered.values():
        assert data != original
        path.write_bytes(data)
        with pytest.raises(TeaError, match=f"its checksum does not match its content. {ADVICE}"):
            TEA.read(path)
    assert len(content) < length


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(part: float, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(TeaError, match="is not a sswim tea, or it is damaged"):
        TEA.read(path)


def test_differences_are_named_at_any_depth() -> None:
    ours = {"a": 1, "b": {"c": 2, "d": [3]}, "e": 4}
    assert differences(ours, ours) == differences({}, {}) == []
    theirs = {"a": 1, "b": {"c": 5, "d": [3, 4]}, "f": 6}
    assert differences(theirs, ours) == [
        "b.c is 5, not 2",
        "b.d is [3, 4], not [3]",
        "f is 6, not None",
        "e is None, not 4",
    ]
    assert differences({"a": {"b": 1}}, {"a": 2}) == ["a is {'b': 1}, not 2"]
