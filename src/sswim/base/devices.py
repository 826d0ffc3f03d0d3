"""The device on which tensors live: a CPU or a GPU."""

from __future__ import annotations

import torch

from sswim.base.validation import UserError


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the named device; ``"auto"`` is a CUDA device if there is one, and else the CPU.

    A device that PyTorch does not know, or that this machine does not have, raises an error that
    lists those that there are.
    """
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        named = torch.device(device)
        if named.type == "meta":
            raise RuntimeError("tensors on it have no values")
        torch.empty(0, device=named)
    # An AssertionError comes from a PyTorch without CUDA, an ImportError from a missing backend.
    except (RuntimeError, TypeError, AssertionError, ImportError, NotImplementedError) as error:
        raise UserError(
            'device must be "auto" or a device that this machine has and PyTorch can use. '
            f"Got {str(device)!r}; there {_listed(_devices())}."
        ) from error
    return named


def available_device(device: str | torch.device) -> torch.device:
    """Return the named device, or the one of ``"auto"`` if this machine does not have it."""
    try:
        return resolve_device(device)
    except UserError:
        return resolve_device("auto")


def _devices() -> list[str]:
    """Return the names of the devices that PyTorch finds here."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def _listed(names: list[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"is only {quoted}" if len(names) == 1 else f"are {quoted}"
