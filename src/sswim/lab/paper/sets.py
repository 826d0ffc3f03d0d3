"""Which data sets an experiment is run on."""

from __future__ import annotations

from collections.abc import Sequence

from sswim.lab.bench.stand_in import STAND_IN
from sswim.lab.datasets.folders import find
from sswim.lab.paper.request import Request


def at_hand(request: Request, names: Sequence[str]) -> tuple[str, ...]:
    """Those whose files are there; nothing is downloaded."""
    return tuple(name for name in names if find(name, request.folder) is not None)


def sets_to_run(
    request: Request, own: Sequence[str], quick: Sequence[str] = ("airfoil", "concrete")
) -> tuple[str, ...]:
    """Those asked for, or those of the experiment that are at hand.

    Only a set that is asked for by its name may be downloaded, because some are large. A quick run
    always has something to run on.

    Args:
        request: What is asked for.
        own: The data sets of the experiment.
        quick: Those of its small version.
    """
    if request.sets:
        return request.sets
    if request.quick:
        return at_hand(request, quick) or (STAND_IN,)
    there = at_hand(request, own)
    if missing := [name for name in own if name not in there]:
        request.notify(
            f"Left out, because their files are not at hand: {', '.join(missing)}. Ask for them "
            f"to have them downloaded: --sets {','.join(missing)}."
        )
    return there
