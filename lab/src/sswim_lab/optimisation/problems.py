"""The problems by name."""

from __future__ import annotations

from sswim.base.validation import UserError
from sswim_lab.optimisation import boosting, brusselator, cart_pole
from sswim_lab.optimisation.formulas import (
    bird,
    chirp_step,
    colville,
    cross_in_tray,
    fading_wave,
    forrester,
    gp_draw,
    gramacy,
    of_botorch,
    warped_branin,
    zakharov,
)
from sswim_lab.optimisation.problem import Problem

DATA_SETS = ("concrete", "airfoil", "abalone")
"""Data sets for which LightGBM is tuned."""

_CUBE = (0.0, 1.0)
_ACKLEY = (-20.0, 32.768)  # the usual bounds would have the optimum in the centre of the cube
_DROP_WAVE = (-3.0, 5.12)  # likewise
_THREE_HUMP_CAMEL = (-3.0, 5.0)  # likewise
_EGGHOLDER = (-512.0, 512.0)
_BIRD = (-6.283185307179586, 6.283185307179586)
_MICHALEWICZ = (0.0, 3.141592653589793)
_BOTORCH = ("botorch",)

_ALL = (
    Problem("gramacy", ((-2.0, 6.0),) * 2, gramacy, nonstationary=True),
    Problem("chirp-step", (_CUBE,), chirp_step, nonstationary=True),
    Problem("ackley", (_ACKLEY,) * 2, of_botorch("Ackley", 2), True, _BOTORCH),
    Problem("michalewicz", (_MICHALEWICZ,) * 5, of_botorch("Michalewicz", 5), True, _BOTORCH),
    Problem("warped-branin", (_CUBE,) * 2, warped_branin, nonstationary=True),
    Problem("cartpole", cart_pole.BOUNDS, cart_pole.swing_up_cost, nonstationary=True),
    Problem("pde", brusselator.BOUNDS, brusselator.weighted_variance, nonstationary=True),
    *(
        Problem(
            f"lightgbm-{name}",
            boosting.BOUNDS,
            boosting.cross_validated_error(name),
            nonstationary=True,
            libraries=("lightgbm",),
        )
        for name in DATA_SETS
    ),
    Problem("hartmann6", (_CUBE,) * 6, of_botorch("Hartmann", 6), False, _BOTORCH),
    Problem("gp-draw", (_CUBE,) * 2, gp_draw, nonstationary=False),
    *(
        Problem(name, bounds, function, nonstationary, _BOTORCH)
        for name, bounds, function, nonstationary in (
            ("rosenbrock", ((-5.0, 10.0),) * 4, of_botorch("Rosenbrock", 4), True),
            ("levy", ((-10.0, 10.0),) * 4, of_botorch("Levy", 4), True),
            ("shekel", ((0.0, 10.0),) * 4, of_botorch("Shekel"), True),
            ("drop-wave", (_DROP_WAVE,) * 2, of_botorch("DropWave"), True),
            ("six-hump-camel", ((-3.0, 3.0), (-2.0, 2.0)), of_botorch("SixHumpCamel"), True),
            ("hartmann3", (_CUBE,) * 3, of_botorch("Hartmann", 3), False),
            ("styblinski-tang", ((-5.0, 5.0),) * 4, of_botorch("StyblinskiTang", 4), False),
        )
    ),
    *(
        Problem(name, bounds, function, True, _BOTORCH)
        for name, bounds, function in (
            ("holder-table", ((-10.0, 10.0),) * 2, of_botorch("HolderTable")),
            ("three-hump-camel", (_THREE_HUMP_CAMEL,) * 2, of_botorch("ThreeHumpCamel")),
        )
    ),
    Problem("fading-wave", ((0.5, 2.5),), fading_wave, nonstationary=True),
    Problem("forrester", (_CUBE,), forrester, nonstationary=True),
    Problem("colville", ((-10.0, 10.0),) * 4, colville, nonstationary=True),
    Problem("eggholder", (_EGGHOLDER,) * 2, of_botorch("EggHolder"), True, _BOTORCH, fresh=True),
    Problem("cross-in-tray", ((-10.0, 10.0),) * 2, cross_in_tray, nonstationary=True, fresh=True),
    Problem("bird", (_BIRD,) * 2, bird, nonstationary=True, fresh=True),
    Problem("zakharov", ((-5.0, 10.0),) * 4, zakharov, nonstationary=True, fresh=True),
)

PROBLEMS = {problem.name: problem for problem in _ALL}


def problem_named(name: str) -> Problem:
    """Return a problem; raise UserError for an unknown name."""
    if name not in PROBLEMS:
        raise UserError(f"A problem must be one of {', '.join(PROBLEMS)}. Got {name!r}.")
    return PROBLEMS[name]
