"""The device that computes."""

from __future__ import annotations

import torch


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device of a name; ``"auto"`` is CUDA where there is one, and the CPU elsewhere."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)
