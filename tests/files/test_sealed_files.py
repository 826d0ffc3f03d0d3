from __future__ import annotations

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


def test_what_is_written_is_read_from_files_and_bytes(path: Path, tmp_path: Path) -> None:
    data = TEA.to_bytes(TENSORS, CONTENT)
    for tensors, content in (TEA.read(path), TEA.from_bytes(data, "This cup")):
        assert content == CONTENT
        assert tensors.keys() == TENSORS.keys()
        for name, tensor in TENSORS.items():
            assert tensors[name].dtype == tensor.dtype
            assert torch.equal(tensors[name], tensor)
    # Equal content makes equal files, in whatever order and with gradients or without.
    other = tmp_path / "other"
    leaves = {"leaves": TENSORS["leaves"].clone().requires_grad_()}
    reordered = dict(reversed((TENSORS | leaves).items()))
    TEA.write(other, reordered, dict(reversed(CONTENT.items())))
    assert other.read_bytes() == path.read_bytes() == data


def test_other_and_truncated_files_are_refused(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    truncated = [data[: int(part * len(data))] for part in (0.0, 0.3, 0.9, 0.999)]
    for content in (b"tea", b"\x02\0\0\0\0\0\0\0[]", *truncated):
        path.write_bytes(content)
        message = rf"is not a sswim tea, or it is damaged: .*{ADVICE}"
        with pytest.raises(TeaError, match=f"cup' {message}"):
            TEA.read(path)
        with pytest.raises(TeaError, match=f"This cup {message}"):
            TEA.from_bytes(content, "This cup")
    with pytest.raises(TeaError, match=r"The tea file '.*nothing' cannot be read"):
        TEA.read(tmp_path / "nothing")


def test_other_safetensors_files_and_versions_are_refused(path: Path, tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "plain")
    with pytest.raises(TeaError, match="a safetensors file, but not a sswim tea"):
        TEA.read(tmp_path / "plain")
    with pytest.raises(TeaError, match="a safetensors file, but not a sswim coffee"):
        replace(TEA, noun="coffee").read(path)
    with pytest.raises(TeaError, match="has tea format 3; this sswim reads format 4"):
        replace(TEA, version=4).read(path)


def test_every_part_of_the_file_is_under_the_checksum(path: Path) -> None:
    original = path.read_bytes()
    for data in (
        original.replace(b"Assam", b"Ceylo"),
        original[:-1] + bytes([original[-1] ^ 1]),  # of a tensor
        original.replace(b'"leaves"', b'"loaves"'),
    ):
        assert data != original
        path.write_bytes(data)
        with pytest.raises(TeaError, match=f"its checksum does not match its content. {ADVICE}"):
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
