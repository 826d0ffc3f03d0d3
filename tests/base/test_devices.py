from __future__ import annotations

import pytest
import torch

from sswim.base.devices import available_device, resolve_device


def test_automatic_device() -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("available", "expected"), [(True, "cuda"), (False, "cpu")])
def test_the_automatic_device_is_a_gpu_if_there_is_one(
    available: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert resolve_device("auto") == torch.device(expected)
    assert resolve_device("cpu") == torch.device("cpu")


def test_a_device_is_returned_as_it_is() -> None:
    assert resolve_device(torch.device("cuda", 3)) == torch.device("cuda:3")


def test_a_missing_device_is_replaced_by_the_automatic_one() -> None:
    assert available_device("cpu") == torch.device("cpu")
    assert available_device("auto") == resolve_device("auto")
    assert available_device("cuda:99") == resolve_device("auto")
