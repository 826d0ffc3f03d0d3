from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import unchecked

from sswim.base.validation import UserError
from sswim.distributed.processes import available_device, resolve_device


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
    assert resolve_device(torch.device("cpu", 0)) == torch.device("cpu:0")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "", None, torch.device("cuda:99")])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(name: Any) -> None:
    message = r'device must be "auto" or a device that this machine has.* Got .*; there .*"cpu"'
    with pytest.raises(UserError, match=message):
        unchecked(resolve_device, device=name)


def test_a_missing_device_is_replaced_by_the_automatic_one() -> None:
    assert available_device("cpu") == torch.device("cpu")
    assert available_device("auto") == resolve_device("auto")
    assert available_device("cuda:99") == resolve_device("auto")
