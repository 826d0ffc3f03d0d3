"""The least known values of the problems."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimum:
    """The least known value of a problem."""

    value: float
    point: tuple[float, ...]
    """A point of the unit cube that has this value."""


OPTIMA: dict[str, Optimum] = {
    "gramacy": Optimum(-0.42888194248035344, (0.16161165215816584, 0.2499999991482784)),
    "chirp-step": Optimum(-0.7900795209114809, (0.7871429205532519,)),
    "ackley": Optimum(4.440892098500626e-16, (0.3790175864160097, 0.3790175864160097)),
    "michalewicz": Optimum(
        -4.687658179088144,
        (
            0.7012066051555496,
            0.49999999986245164,
            0.40902552101460277,
            0.6121285227529176,
            0.5476425371571563,
        ),
    ),
    "cartpole": Optimum(
        0.1805158163061734,
        (
            0.09582724931546141,
            1.0,
            0.031245071599045417,
            0.9999999999999922,
            0.3774762620508302,
            0.3375478428622412,
        ),
    ),
    "pde": Optimum(0.014518303267046201, (0.04401832973625373, 0.0, 1.304263312761271e-10, 1.0)),
    "warped-branin": Optimum(0.39788735772973816, (0.21603750849924724, 0.5945842177146392)),
    "lightgbm-concrete": Optimum(
        4.165349888363126,
        (
            0.9868992146600927,
            0.620873811820454,
            0.5380074123139864,
            0.8446393814020329,
            0.7913380437543076,
            0.8383710358814304,
        ),
    ),
    "lightgbm-airfoil": Optimum(
        1.4878116060731266,
        (
            0.8262390706176255,
            0.8230375986845293,
            0.009595511849918498,
            0.5758325896275962,
            0.6394528239817356,
            0.6663515357642327,
        ),
    ),
    "lightgbm-abalone": Optimum(
        2.118708805821158,
        (
            0.4838366322240699,
            0.6351909211100287,
            0.6837586775687321,
            0.2985861205896298,
            0.48968938602588846,
            0.3121581789764699,
        ),
    ),
    "hartmann6": Optimum(
        -3.3223680044401864,
        (
            0.2016895135736878,
            0.15001068966483527,
            0.4768739710007497,
            0.27533242964613486,
            0.31165161729097884,
            0.6573005353252894,
        ),
    ),
    "gp-draw": Optimum(-2.2415684226662855, (0.7154750965195957, 0.6241676991139868)),
}
"""By name of a problem; from ``benchmarks/optimisation_optima.py``, which searches long.

That of Michalewicz's function, a sum over the inputs, began with the minimum of each input.
"""
