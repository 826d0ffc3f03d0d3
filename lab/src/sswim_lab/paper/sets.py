"""The data sets on which an experiment is run."""

from __future__ import annotations

from collections.abc import Sequence

from sswim_lab.bench.splits import SYNTHETIC
from sswim_lab.datasets import find
from sswim_lab.paper.request import Request


def available_sets(request: Request, names: Sequence[str]) -> tuple[str, ...]:
    """Return the data sets whose files exist; nothing is downloaded."""
    return tuple(name for name in names if find(name, request.folder) is not None)


def sets_to_run(request: Request, own: Sequence[str], quick: Sequence[str]) -> tuple[str, ...]:
    """Return the requested data sets, or the available ones of the experiment.

    Only a data set that is requested by name may be downloaded, because some are large. A quick
    run falls back to synthetic rows.

    Args:
        request: The request.
        own: The data sets of the experiment.
        quick: The data sets of its quick version.
    """
    if request.sets:
        return request.sets
    if request.quick:
        return available_sets(request, quick) or (SYNTHETIC,)
    available = available_sets(request, own)
    if missing := [name for name in own if name not in available]:
        request.notify(
            f"Left out, because their files are not available: {', '.join(missing)}. Name them to "
            f"download them: --sets {','.join(missing)}."
        )
    return available
