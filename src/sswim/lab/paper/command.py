"""What ``sswim reproduce`` does, whatever shows its progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sswim.lab.bench.methods import require_method
from sswim.lab.bench.runner import require_numbers
from sswim.lab.bench.stand_in import STAND_IN
from sswim.lab.datasets.catalogue import data_set
from sswim.lab.paper.catalogue import EXPERIMENTS
from sswim.lab.paper.experiment import Experiment
from sswim.lab.paper.request import Request

ALL = "all"
"""The name of all experiments together."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def listing() -> list[str]:
    """A line about every experiment."""
    width = max(map(len, EXPERIMENTS))
    lines = [f"{name:{width}}  {each.title}" for name, each in EXPERIMENTS.items()]
    return [*lines, f"{ALL:{width}}  All of these"]


def default_out(quick: bool) -> Path:
    """The folder for results, where a quick run does not overwrite others."""
    return Path("results") / ("paper-quick" if quick else "paper")


def reproduce(name: str, request: Request) -> int:
    """Run an experiment, or all; the exit code.

    A fit that fails is a result like others. One of several experiments that fails as a whole does
    not stop the others, but makes the exit code 1.
    """
    experiments = _require(name, request)
    request = replace(request, resume=True)  # from here on: what is there is this command's own
    broken = []
    for experiment in experiments:
        request.notify(f"{experiment.name}: {experiment.title}.")
        try:
            paths = experiment.run(request)
        except Exception as error:
            if len(experiments) == 1:
                raise
            broken.append(f"{experiment.name}: {type(error).__name__}: {error}")
        else:
            request.notify(f"Wrote {', '.join(map(str, paths))}.")
    for row in request.failures:
        request.notify(f"Failed: {row.job}: {row.failure}")
    if request.failures:
        request.notify("What failed is part of the results; --retry tries it again.")
    for line in broken:
        request.notify(f"Failed as a whole: {line}")
    return 1 if broken else 0


def interrupted(request: Request) -> str:
    """What to say after Ctrl-C."""
    return (
        f"Interrupted. What was done is kept in {str(request.out)!r}; the same command with "
        "--resume goes on from there."
    )


def _require(name: str, request: Request) -> Sequence[Experiment]:
    """The experiments of a name, when all that is asked for exists."""
    if name not in (*EXPERIMENTS, ALL):
        known = ", ".join((*EXPERIMENTS, ALL))
        raise ValueError(f"An experiment must be one of {known}. Got {name!r}.")
    if name == ALL and (request.sets or request.methods):
        raise ValueError(
            f"--sets and --methods must go with one experiment, because others have other ones. "
            f"Got {name!r}."
        )
    experiments = list(EXPERIMENTS.values()) if name == ALL else [EXPERIMENTS[name]]
    require_numbers(request.repeats, request.workers)
    for each in request.sets:
        if each != STAND_IN:
            data_set(each)
    for experiment in experiments:
        for method in experiment.methods_for(request):
            require_method(method)
    if not request.resume and request.out.is_dir() and any(request.out.iterdir()):
        raise FileExistsError(
            f"{str(request.out)!r} has results already, which are not overwritten. Add to them "
            "(--resume), or name another folder (--out)."
        )
    return experiments
