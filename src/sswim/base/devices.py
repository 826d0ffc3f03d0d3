"""The device on which tensors live: a CPU or a GPU."""

from __future__ import annotations

import torch


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the named device; ``"auto"`` is a CUDA device if there is one, and else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def available_device(device: str | torch.device) -> torch.device:
    """Return the named device, or the one of ``"auto"`` if this machine does not have it."""
    named = resolve_device(device)
    try:
        torch.empty(0, device=named)
    except (RuntimeError, AssertionError):  # the latter by a PyTorch without CUDA
        return resolve_device("auto")
    return named
