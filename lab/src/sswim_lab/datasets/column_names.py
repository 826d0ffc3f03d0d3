"""Column names of data sets whose original files have no usable header."""

from __future__ import annotations


def numbered(name: str, first: int, last: int) -> tuple[str, ...]:
    """Return a name followed by each number from the first to the last."""
    return tuple(f"{name}{number}" for number in range(first, last + 1))


ABALONE = (
    *("Sex", "Length", "Diameter", "Height", "Whole weight", "Shucked weight", "Viscera weight"),
    *("Shell weight", "Rings"),
)
AIRFOIL = (
    *("Frequency", "Angle_of_attack", "Chord_length", "Free_stream_velocity"),
    *("Suction_side_displacement_thickness", "Scaled_sound_pressure_level"),
)
CONCRETE = (
    "Cement (component 1)(kg in a m^3 mixture)",
    "Blast Furnace Slag (component 2)(kg in a m^3 mixture)",
    "Fly Ash (component 3)(kg in a m^3 mixture)",
    "Water  (component 4)(kg in a m^3 mixture)",
    "Superplasticizer (component 5)(kg in a m^3 mixture)",
    "Coarse Aggregate  (component 6)(kg in a m^3 mixture)",
    "Fine Aggregate (component 7)(kg in a m^3 mixture)",
    "Age (day)",
    "Concrete compressive strength(MPa, megapascals)",
)
ELEVATORS = (
    *("climbRate", "Sgz", "p", "q", "curRoll", "absRoll", "diffClb", "diffRollRate", "diffDiffClb"),
    *numbered("SaTime", 1, 4),
    *numbered("diffSaTime", 1, 4),
    *("Sa", "Goal"),
)
AILERONS = (
    *("climbRate", "Sgz", "p", "q", "curPitch", "curRoll", "absRoll", "diffClb", "diffRollRate"),
    "diffDiffClb",
    *numbered("SeTime", 1, 14),
    *numbered("diffSeTime", 1, 14),
    *("alpha", "Se", "goal"),
)
BUZZ = (
    *(
        f"{name}_{week}"
        for name in ("NCD", "AI", "AS(NA)", "BL", "NAC", "AS(NAC)", "CS", "AT", "NA", "ADL", "NAD")
        for week in range(7)
    ),
    "Mean_NAD",
)
SONG = ("year", *numbered("timbre_average_", 1, 12), *numbered("timbre_covariance_", 1, 78))
"""Columns in the order of the original file, whose target is first."""
CREEP = (
    *("Lifetime", "Rupture_stress", "Temperature"),
    *("Carbon", "Silicon", "Manganese", "Phosphorus", "Sulphur", "Chromium", "Molybdenum"),
    *("Tungsten", "Nickel", "Copper", "Vanadium", "Niobium", "Nitrogen", "Aluminium", "Boron"),
    *("Cobalt", "Tantalum", "Oxygen"),
    *("Normalising_temperature", "Normalising_time", "Cooling_rate"),
    *("Tempering_temperature", "Tempering_time", "Cooling_rate_tempering"),
    *("Annealing_temperature", "Annealing_time", "Cooling_rate_annealing"),
    "Rhenium",
)
"""Columns in the order of the original file, whose target is second."""
FLIGHTS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time"),
    *("sched_arr_time", "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance"),
    *("hour", "minute", "time_hour", "arr_delay"),
)
MCYCLE = ("times", "accel")
