"""The methods of the benchmark by name."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from sswim.base.validation import UserError
from sswim.base.version import __version__
from sswim.ensemble.plan import KINDS, KindName, Recipe
from sswim_lab.peers.bayesian_warped_gp import BWGP
from sswim_lab.peers.dense_gp import GP
from sswim_lab.peers.gpboost_vecchia import GPBoost
from sswim_lab.peers.gpytorch_peers import DKL, DSDGP, SGPR, SVGP, ExactGP, WellTrainedGP
from sswim_lab.peers.protocol import Method, TunedPerDataSet
from sswim_lab.peers.published_sswim import RFFNS, RFFS, PublishedSSWIM
from sswim_lab.peers.sswim_method import SSWIM, sswim
from sswim_lab.peers.trees import CatBoost, HistGradientBoosting, LightGBM, NGBoost, Pytabkit
from sswim_lab.peers.warped_gp import MLWGP


def _without(kind: KindName) -> Recipe:
    return Recipe(kinds=tuple(name for name in KINDS if name != kind))


ABLATIONS: dict[str, dict[str, Any]] = {
    **{f"sswim-no-{kind}": {"recipe": _without(kind)} for kind in KINDS},
    "sswim-no-features": {"recipe": Recipe(kinds=("mean", *KINDS[3:]))},
    "sswim-no-neighbours": {"recipe": Recipe(kinds=KINDS[:3])},
    "sswim-no-local-amplitude": {"recipe": Recipe(local_amplitude=False)},
    "sswim-one-member": {"n_members": 1},
    "sswim-no-scores": {"recipe": Recipe(normal_scores=False)},
    "sswim-separate-warps": {"recipe": Recipe(warps="separate")},
    "sswim-no-output-warp": {"recipe": Recipe(output_warp="none")},
    "sswim-constant-noise": {"recipe": Recipe(noise="constant")},
    "sswim-no-screening": {"recipe": Recipe(screening=False)},
    "sswim-no-enrichment": {"recipe": Recipe(enrichment=False)},
    "sswim-no-cross-fitting": {"recipe": Recipe(cross_fitting=False)},
    "sswim-no-weighing": {"recipe": Recipe(stacking=False)},
    "sswim-no-calibration": {"recipe": Recipe(correction=False)},
    "sswim-no-pruning": {"recipe": Recipe(pruning=False)},
}
"""The default without one of its ingredients: settings by names that start with ``sswim-``."""


def _by_neighbours(depth: int, **others: Any) -> dict[str, Any]:
    return {"depth": depth, "n_neighbors": 64, **others}


NEIGHBOURS: dict[str, SSWIM] = {
    **{f"neighbours{depth}": SSWIM(_by_neighbours(depth)) for depth in (0, 1, 2)},
    **{
        f"neighbours{depth}-scores": SSWIM(_by_neighbours(depth, inputs="normal-scores"))
        for depth in (0, 1, 2)
    },
    **{
        f"neighbours{depth}-gaussian": SSWIM(_by_neighbours(depth, local_amplitude=False))
        for depth in (0, 1, 2)
    },
    "neighbours1-scores-128": SSWIM(_by_neighbours(1, inputs="normal-scores", n_neighbors=128)),
    "neighbours0-matern12": SSWIM(_by_neighbours(0, kernel="matern12")),
    "neighbours1-warp-output": SSWIM(_by_neighbours(1, output_warp="sinh-arcsinh")),
}
"""One model that predicts by neighbours, and variants of it, by the number of warps."""

METHODS: dict[str, Method] = {
    "sswim": sswim(),
    **{name: SSWIM(changes) for name, changes in ABLATIONS.items()},
    **NEIGHBOURS,
    "lightgbm": LightGBM(),
    "lgbm-td": Pytabkit("LGBM_TD_Regressor", ("pytabkit", "lightgbm"), runs_on_gpu=False),
    "catboost": CatBoost(),
    "catboost-rmse": CatBoost("RMSE"),
    "ngboost": NGBoost(),
    "hist-gradient-boosting": HistGradientBoosting(),
    "realmlp-td": Pytabkit("RealMLP_TD_Regressor"),
    "tabm-d": Pytabkit("TabM_D_Regressor"),
    "xrfm-d": Pytabkit("XRFM_D_Regressor", ("pytabkit", "xrfm", "torch")),
    "exact-gp": ExactGP(),
    "exact-gp-well-trained": WellTrainedGP(),
    "gpboost-vecchia": GPBoost(),
    **{f"sswim{depth}-paper": sswim(depth, preset="paper") for depth in (1, 2)},
    "dsdgp": DSDGP(),
    "dkl": DKL(),
    "rffns": RFFNS,
    "svgp": SVGP(),
    "sgpr": SGPR(),
    "rffs": RFFS,
    "gp": GP(),
    "bwgp": BWGP(),
    "mlwgp3": MLWGP(3),
    "mlwgp20": MLWGP(20),
}

N_PSEUDO = (10, 20, 40, 80, 160, 320, 640, 1280)
"""Numbers of pseudo-points that a figure compares."""
DEPTHS = (0, 1, 2, 3)
"""Numbers of warps that a figure compares."""

VARIANTS: dict[str, Method] = {
    **{f"paper-k{n}": PublishedSSWIM(1, n_components=256, n_pseudo=n) for n in N_PSEUDO},
    "paper-depth0": replace(RFFS, n_components=256),
    **{f"paper-depth{n}": PublishedSSWIM(n, n_components=256, n_pseudo=1280) for n in DEPTHS[1:]},
}
"""The published method with other numbers of pseudo-points or warps, for figures."""

QUICK_SUFFIX = "-quick"
"""End of the names of quick methods."""

_SMALL: dict[str, Method] = {
    "sswim": SSWIM({"n_components": 32, "n_pseudo": 4, "max_iter": 5, "n_members": 1}),
    **{
        name: replace(method, n_components=32, n_pseudo=min(method.n_pseudo, 40), steps=15)
        for name, method in (METHODS | VARIANTS).items()
        if isinstance(method, PublishedSSWIM)
    },
    "dsdgp": DSDGP(n_hidden=2, n_inducing=16, n_samples=2, epochs=5),
    "dkl": DKL(widths=(16, 2), grid_size=20, steps=10),
    "svgp": SVGP(n_inducing=16, epochs=10),
    "sgpr": SGPR(n_inducing=16, steps=10),
    "gp": GP(start_iterations=2, iterations=10),
    "bwgp": BWGP(n_points=10, start_iterations=2, iterations=10),
    "mlwgp3": MLWGP(3, start_iterations=2, iterations=10),
    "mlwgp20": MLWGP(20, start_iterations=2, iterations=10),
}

QUICK = {f"{name}{QUICK_SUFFIX}": method for name, method in _SMALL.items()}
"""Small versions of methods for quick runs; their scores mean nothing."""

MODULES = {"scikit-learn": "sklearn.ensemble"}
"""Modules to import for distributions whose name is no module."""

EXTRAS = dict.fromkeys(("pytabkit", "xrfm", "ngboost"), "strong-peers")
"""Extras of this package that install a distribution, if not ``peers``."""


def require_method(name: str, data_set: str | None = None) -> Method:
    """Return a method and import its libraries; raise UserError if that is impossible.

    Args:
        name: One of ``METHODS``, ``VARIANTS`` or ``QUICK``.
        data_set: The data set to fit, for methods with published settings for each data set.
    """
    method = {**VARIANTS, **QUICK, **METHODS}.get(name)
    if method is None:
        raise UserError(f"A method must be one of {', '.join(METHODS)}. Got {name!r}.")
    for library in method.libraries:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # GPyTorch warns under a new PyTorch
                importlib.import_module(MODULES.get(library, library))
        except ImportError as error:
            raise UserError(
                f"The method {name!r} needs {library}, which cannot be imported ({error}). "
                "Install the peers' libraries: "
                f"pip install 'sswim-lab[{EXTRAS.get(library, 'peers')}]'."
            ) from error
    if data_set is not None and isinstance(method, TunedPerDataSet):
        return method.for_data_set(data_set)
    return method


def versions(method: Method) -> str:
    """Return the versions of this package and of the method's libraries."""
    libraries = [f"{library} {version(library)}" for library in method.libraries]
    return "; ".join([f"sswim {__version__}", *libraries])
