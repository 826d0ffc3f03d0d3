"""The catalogue of named data sets: sizes, sources, licences and preparation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sswim.base.validation import UserError
from sswim_lab.datasets import originals, preparation

CC_BY = "CC BY 4.0"
NO_LICENCE = "none stated"


@dataclass(frozen=True)
class Original:
    """The public file of a data set."""

    url: str
    parse: Callable[[Path], pa.Table]
    """Reads the file as a table with the target last."""


@dataclass(frozen=True)
class DataSet:
    """Facts about a data set; rows, inputs and target are those after preparation."""

    name: str
    n_rows: int
    n_inputs: int
    target: str
    source: str
    page: str
    """Address of a description."""
    licence: str
    original: Original | None = None
    prepare: Callable[[pa.Table], pa.Table] = preparation.unchanged
    treatment: str = "used as it is"
    """Description of ``prepare``."""
    remark: str = ""
    """A fact that readers of results should know."""
    n_train: int | None = None
    """Number of training rows; by default two thirds of all."""
    n_left_out: int = 0
    """Number of rows of the file that preparation leaves out."""
    in_paper: bool = True
    """Whether the paper has scores of it."""


def data_set(name: str) -> DataSet:
    """Return the facts about a data set; raise UserError if there is none of that name."""
    if name not in DATA_SETS:
        raise UserError(f"A data set must be one of {', '.join(DATA_SETS)}. Got {name!r}.")
    return DATA_SETS[name]


def _uci(number: int, title: str) -> str:
    return f"https://archive.ics.uci.edu/dataset/{number}/{title}"


def _uci_zip(number: int, title: str, parse: Callable[[Path], pa.Table]) -> Original:
    return Original(f"https://archive.ics.uci.edu/static/public/{number}/{title}.zip", parse)


def _torgo(file: str) -> str:
    return f"https://www.dcc.fc.up.pt/~ltorgo/Regression/{file}"


def _delve(family: str) -> str:
    return f"https://www.cs.toronto.edu/~delve/data/{family}/desc.html"


_MAP = "https://www.phase-trans.msm.cam.ac.uk/map/data"
_CT_SLICE = "relative+location+of+ct+slices+on+axial+axis"
_PROTEIN = "physicochemical+properties+of+protein+tertiary+structure"
_TRAIN_PART = "only the rows of the part for training"

_ALL = (
    DataSet(
        name="elevators",
        n_rows=8752,
        n_inputs=18,
        target="Goal",
        source="L. Torgo, Elevators",
        page=_torgo("elevators.html"),
        licence=NO_LICENCE,
        original=Original(_torgo("elevators.tgz"), originals.elevators),
        prepare=preparation.train_part,
        treatment=_TRAIN_PART,
        remark="The paper has 8751 rows, presumably because the first was taken for a header.",
        n_left_out=7847,
    ),
    DataSet(
        name="airfoil",
        n_rows=1503,
        n_inputs=5,
        target="Scaled_sound_pressure_level",
        source="UCI, Airfoil Self-Noise",
        page=_uci(291, "airfoil+self+noise"),
        licence=CC_BY,
        original=_uci_zip(291, "airfoil+self+noise", originals.airfoil),
    ),
    DataSet(
        name="concrete",
        n_rows=1030,
        n_inputs=8,
        target="Concrete compressive strength(MPa, megapascals)",
        source="UCI, Concrete Compressive Strength",
        page=_uci(165, "concrete+compressive+strength"),
        licence=CC_BY,
        original=Original(
            "https://archive.ics.uci.edu/static/public/165/data.csv", originals.concrete
        ),
        remark="The download is UCI's CSV file, which rounds the numbers of Concrete_Data.xls.",
    ),
    DataSet(
        name="parkinsons",
        n_rows=5875,
        n_inputs=16,
        target="total_UPDRS",
        source="UCI, Parkinsons Telemonitoring",
        page=_uci(189, "parkinsons+telemonitoring"),
        licence=CC_BY,
        original=_uci_zip(189, "parkinsons+telemonitoring", originals.parkinsons),
        prepare=preparation.parkinsons,
        treatment="without subject#, age, sex, test_time and motor_UPDRS",
    ),
    DataSet(
        name="bikeshare",
        n_rows=17379,
        n_inputs=15,
        target="cnt",
        source="UCI, Bike Sharing (hours)",
        page=_uci(275, "bike+sharing+dataset"),
        licence=CC_BY,
        original=_uci_zip(275, "bike+sharing+dataset", originals.bikeshare),
        prepare=preparation.bikeshare,
        treatment="dteday in seconds since 1970-01-01; without instant",
        remark="casual + registered == cnt in every row, and both are inputs: the target is a "
        "linear function of the inputs.",
    ),
    DataSet(
        name="ct_slice",
        n_rows=53500,
        n_inputs=379,
        target="reference",
        source="UCI, Relative location of CT slices on axial axis",
        page=_uci(206, _CT_SLICE),
        licence=CC_BY,
        original=_uci_zip(206, _CT_SLICE, originals.ct_slice),
        prepare=preparation.ct_slice,
        treatment="without patientId and columns of one value",
        remark="Slices of one patient are in both parts of a random split.",
    ),
    DataSet(
        name="supercond",
        n_rows=21263,
        n_inputs=81,
        target="critical_temp",
        source="UCI, Superconductivty Data",
        page=_uci(464, "superconductivty+data"),
        licence=CC_BY,
        original=_uci_zip(464, "superconductivty+data", originals.supercond),
        remark="The download has the rows in UCI's order; a file in another has other splits.",
    ),
    DataSet(
        name="protein",
        n_rows=45730,
        n_inputs=9,
        target="log(1 + RMSD)",
        source="UCI, Physicochemical Properties of Protein Tertiary Structure",
        page=_uci(265, _PROTEIN),
        licence=CC_BY,
        original=_uci_zip(265, _PROTEIN, originals.protein),
        prepare=preparation.log_target,
        treatment="the logarithm of one more than the target",
    ),
    DataSet(
        name="buzz",
        n_rows=583250,
        n_inputs=77,
        target="log(1 + Mean_NAD)",
        source="UCI, Buzz in social media (Twitter)",
        page=_uci(248, "buzz+in+social+media"),
        licence=CC_BY,
        original=_uci_zip(248, "buzz+in+social+media", originals.buzz),
        prepare=preparation.log_target,
        treatment="the logarithm of one more than the target",
        remark="The target counts active discussions.",
    ),
    DataSet(
        name="song",
        n_rows=515345,
        n_inputs=90,
        target="year",
        source="UCI, YearPredictionMSD",
        page=_uci(203, "yearpredictionmsd"),
        licence=CC_BY,
        original=_uci_zip(203, "yearpredictionmsd", originals.song),
        remark="Songs of one artist are in both parts of a random split.",
    ),
    DataSet(
        name="abalone",
        n_rows=4177,
        n_inputs=9,
        target="Rings",
        source="UCI, Abalone",
        page=_uci(1, "abalone"),
        licence=CC_BY,
        original=_uci_zip(1, "abalone", originals.abalone),
        prepare=preparation.abalone,
        treatment="Sex as indicators of I and of M",
        n_train=1000,
    ),
    DataSet(
        name="creep",
        n_rows=2066,
        n_inputs=30,
        target="Rupture_stress",
        source="Materials Algorithms Project, Cambridge",
        page=f"{_MAP}/materials/creeprupt-b.html",
        licence=NO_LICENCE,
        original=Original(f"{_MAP}/tar/creeprupt.tar", originals.creep),
        remark="Cite F. Brun and T. Yoshida, MAP_DATA_CREEP_RUPTURE. Lifetime is an input.",
        n_train=800,
    ),
    DataSet(
        name="ailerons",
        n_rows=7154,
        n_inputs=40,
        target="goal",
        source="L. Torgo, Ailerons",
        page=_torgo("ailerons.html"),
        licence=NO_LICENCE,
        original=Original(_torgo("ailerons.tgz"), originals.ailerons),
        prepare=preparation.train_part,
        treatment=_TRAIN_PART,
        n_train=1003,
        n_left_out=6596,
    ),
    DataSet(
        name="prism_elevation",
        n_rows=816307,
        n_inputs=2,
        target="elevation",
        source="R package fields",
        page="https://cran.r-project.org/package=fields",
        licence="GPL 2 or later",
        remark="Elevation on the PRISM 4 km grid around the conterminous USA. About a third of the "
        "cells are sea, with elevation 0.",
        in_paper=False,
    ),
    DataSet(
        name="nycflights13",
        n_rows=327346,
        n_inputs=23,
        target="arr_delay",
        source="R package nycflights13",
        page="https://github.com/tidyverse/nycflights13",
        licence="CC0",
        original=Original(
            "https://vincentarelbundock.github.io/Rdatasets/csv/nycflights13/flights.csv",
            originals.nycflights13,
        ),
        prepare=preparation.nycflights13,
        treatment="the date as day of the year and weekday (Monday is 0), scheduled times in "
        "minutes after midnight, dest as its rank by number of flights, indicators of origin and "
        "carrier; without what is only known later (dep_time, dep_delay, arr_time, air_time), "
        "names (flight, tailnum) and what the others tell (year, hour, minute, time_hour)",
        remark="Departures from New York in 2013 that arrived.",
        in_paper=False,
    ),
    DataSet(
        name="powerplant",
        n_rows=9568,
        n_inputs=4,
        target="PE",
        source="UCI, Combined Cycle Power Plant",
        page=_uci(294, "combined+cycle+power+plant"),
        licence=CC_BY,
        remark="Fine detail that few features cannot follow.",
        in_paper=False,
    ),
    DataSet(
        name="kin8nm",
        n_rows=8192,
        n_inputs=8,
        target="y",
        source="Delve, kin",
        page=_delve("kin"),
        licence=NO_LICENCE,
        remark="A simulated robot arm: smooth, and the inputs interact strongly.",
        in_paper=False,
    ),
    DataSet(
        name="pumadyn32nm",
        n_rows=8192,
        n_inputs=32,
        target="y",
        source="Delve, pumadyn",
        page=_delve("pumadyn"),
        licence=NO_LICENCE,
        remark="A simulated robot arm: few of the inputs matter, and none of them alone. The file "
        "is a re-release with rescaled inputs and target.",
        in_paper=False,
    ),
    DataSet(
        name="winered",
        n_rows=1599,
        n_inputs=11,
        target="quality",
        source="UCI, Wine Quality (red)",
        page=_uci(186, "wine+quality"),
        licence=CC_BY,
        original=_uci_zip(186, "wine+quality", originals.winered),
        remark="The target has six distinct values, and 240 rows are copies of others.",
        in_paper=False,
    ),
    DataSet(
        name="mcycle",
        n_rows=133,
        n_inputs=1,
        target="accel",
        source="R package MASS",
        page="https://cran.r-project.org/package=MASS",
        licence="GPL 2 or 3",
        original=Original(
            "https://vincentarelbundock.github.io/Rdatasets/csv/MASS/mcycle.csv", originals.mcycle
        ),
        remark="Motorcycle accidents: very few rows, and their noise varies over time.",
        in_paper=False,
    ),
    DataSet(
        name="maunaloa_co2",
        n_rows=2225,
        n_inputs=1,
        target="co2",
        source="Python package statsmodels",
        page="https://www.statsmodels.org/stable/datasets/generated/co2.html",
        licence="public domain",
        prepare=preparation.maunaloa_co2,
        treatment="without date, which decimal_year repeats",
        remark="Weekly CO2 from 1958 to 2001: a trend and a fast cycle.",
        in_paper=False,
    ),
)

DATA_SETS: dict[str, DataSet] = {each.name: each for each in _ALL}
"""Data sets by name: in the order of the paper's tables, then those not in the paper."""
