"""The base of the methods that compute with PyTorch."""

from __future__ import annotations

from typing import ClassVar

from sswim.base.devices import resolve_device


class TorchMethod:
    """A method that runs on any device of PyTorch."""

    libraries: ClassVar[tuple[str, ...]] = ("torch",)
    max_rows: ClassVar[int | None] = None

    def device(self, wanted: str) -> str:
        """Return the name of the device; ``"auto"`` is CUDA where there is one."""
        return str(resolve_device(wanted))
