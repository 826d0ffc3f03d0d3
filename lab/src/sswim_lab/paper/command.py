"""The experiments by name, and the work of the command ``sswim reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sswim.base.validation import UserError
from sswim_lab.bench.accuracy import SYNTHETIC
from sswim_lab.bench.methods import require_method
from sswim_lab.bench.runner import require_counts
from sswim_lab.datasets.catalogue import data_set
from sswim_lab.paper.experiment import Experiment, FigureExperiment, Request, TableExperiment

MAIN_SETS = (
    "concrete",
    "parkinsons",
    "bikeshare",
    "ct_slice",
    "supercond",
    "protein",
    "buzz",
    "song",
)
OUTPUT_WARP_SETS = ("abalone", "creep", "ailerons")
OURS = ("sswim1-paper", "sswim2-paper")
"""The paper's own methods, with its settings."""
DEFAULT = "sswim"
"""This package's default, which is not in the paper's tables."""
MAIN_METHODS = (*OURS, "dsdgp", "dkl", "rffns", "svgp", "sgpr", "rffs", DEFAULT)
OUTPUT_WARP_METHODS = ("gp", "bwgp", "mlwgp3", "mlwgp20", *OURS, DEFAULT)

_ALL: tuple[Experiment, ...] = (
    TableExperiment(
        "table-main",
        "RMSE and MNLP on eight data sets",
        MAIN_SETS,
        MAIN_METHODS,
        ("airfoil", "concrete"),
    ),
    TableExperiment(
        "table-complete",
        "RMSE and MNLP on ten data sets",
        ("elevators", "airfoil", *MAIN_SETS),
        MAIN_METHODS,
        ("airfoil", "concrete"),
    ),
    TableExperiment(
        "table-output-warp",
        "MSE and MNLP beside Gaussian processes with warped outputs",
        OUTPUT_WARP_SETS,
        OUTPUT_WARP_METHODS,
        ("creep",),
    ),
    FigureExperiment("figure-warp-1d", "The effect of a warp on a signal of one input", "warp_1d"),
    FigureExperiment(
        "figure-pseudo-points",
        "Scores by the number of pseudo-points",
        "variants",
        "PSEUDO_POINTS.run",
    ),
    FigureExperiment("figure-depth", "Scores by the number of warps", "variants", "DEPTH.run"),
    FigureExperiment("figure-overfitting", "Test scores at every step of training", "overfitting"),
    FigureExperiment("figure-gramacy", "Warps of a function of two inputs", "gramacy"),
)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}
"""Experiments by name, in the order in which ``all`` runs them."""
ALL = "all"
"""Name that stands for all experiments."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells."""


def listing() -> list[str]:
    """Return a line about every experiment."""
    width = max(map(len, EXPERIMENTS))
    lines = [f"{name:{width}}  {each.title}" for name, each in EXPERIMENTS.items()]
    return [*lines, f"{ALL:{width}}  All of these"]


def default_out(quick: bool) -> Path:
    """Return the default folder of the results; quick runs have their own."""
    return Path("results") / ("paper-quick" if quick else "paper")


def reproduce(name: str, request: Request) -> int:
    """Run one experiment or all, and return the exit code.

    A failed fit is a result like any other. If several experiments are run, an error in one does
    not stop the others, but makes the exit code 1.
    """
    experiments = _require_experiments(name, request)
    request = replace(request, resume=True)  # later experiments add to the results of earlier ones
    errors = []
    for experiment in experiments:
        request.notify(f"{experiment.name}: {experiment.title}.")
        try:
            paths = experiment.run(request)
        except Exception as error:
            if len(experiments) == 1:
                raise
            errors.append(f"{experiment.name}: {type(error).__name__}: {error}")
        else:
            request.notify(f"Wrote {', '.join(map(str, paths))}.")
    for row in request.failures:
        request.notify(f"Failed: {row.job}: {row.failure}")
    if request.failures:
        request.notify("Failures are part of the results; --retry runs these fits again.")
    for line in errors:
        request.notify(f"Experiment failed: {line}")
    return 1 if errors else 0


def interruption_message(request: Request) -> str:
    """Return the message after Ctrl-C."""
    return (
        f"Interrupted. Finished fits are kept in {str(request.out)!r}; run the same command with "
        "--resume to continue."
    )


def _require_experiments(name: str, request: Request) -> Sequence[Experiment]:
    """Return the experiments of a name; raise an error unless the whole request is valid."""
    if name not in (*EXPERIMENTS, ALL):
        known = ", ".join((*EXPERIMENTS, ALL))
        raise UserError(f"An experiment must be one of {known}. Got {name!r}.")
    if name == ALL and (request.sets or request.methods):
        raise UserError(
            f"--sets and --methods need a single experiment, because each has its own. "
            f"Got {name!r}."
        )
    experiments = list(EXPERIMENTS.values()) if name == ALL else [EXPERIMENTS[name]]
    require_counts(request.repeats, request.workers)
    for each in request.sets:
        if each != SYNTHETIC:
            data_set(each)
    for experiment in experiments:
        for method in experiment.methods_for(request):
            require_method(method)
    if not request.resume and request.out.is_dir() and any(request.out.iterdir()):
        raise FileExistsError(
            f"{str(request.out)!r} has results already, which are not overwritten. Add to them "
            "(--resume), or give another folder (--out)."
        )
    return experiments
