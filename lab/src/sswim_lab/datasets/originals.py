"""Readers of the public files of data sets: each returns a table with the target last.

Files inside ZIP and TAR archives are read without unpacking these. Where a file has no usable
header, the names of its columns are here.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv


def abalone(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: numbers and a letter for the sex, without a header."""
    with open_in_zip(file, "abalone.data") as text:
        return _read_csv(text, ABALONE)


def ailerons(file: Path) -> pa.Table:
    """Read Torgo's TAR archive: a training and a test file without headers."""
    return _read_two_parts(file, "ailerons", AILERONS)


def airfoil(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: numbers separated by tabs, without a header."""
    with open_in_zip(file, "airfoil_self_noise.dat") as text:
        return _read_csv(text, AIRFOIL, delimiter="\t")


def bikeshare(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: the hours of two years, with a header."""
    with open_in_zip(file, "hour.csv") as text:
        return _move_target_last(_read_csv(text, types={"dteday": pa.string()}), "cnt")


def buzz(file: Path) -> pa.Table:
    """Read UCI's ZIP archive of TAR archives: numbers without a header."""
    with (
        open_in_zip(file, "regression.tar.gz") as archive,
        open_in_tar(archive, "Twitter.data") as text,
    ):
        return _read_csv(text, BUZZ)


def concrete(file: Path) -> pa.Table:
    """Read UCI's CSV file, whose header has shorter names than the spreadsheet."""
    with file.open("rb") as text:
        return _read_csv(text).rename_columns(CONCRETE)


def creep(file: Path) -> pa.Table:
    """Read the TAR archive of the Materials Algorithms Project: numbers separated by blanks."""
    with open_in_tar(file, "taka") as text:
        values = np.loadtxt(text, ndmin=2)
    return _move_target_last(pa.table(list(values.T), names=CREEP), "Rupture_stress")


def ct_slice(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: patients, histograms and positions, with a header."""
    with open_in_zip(file, "slice_localization_data.csv") as text:
        return _move_target_last(_read_csv(text), "reference")


def elevators(file: Path) -> pa.Table:
    """Read Torgo's TAR archive: a training and a test file without headers."""
    return _read_two_parts(file, "elevators", ELEVATORS)


def mcycle(file: Path) -> pa.Table:
    """Read the CSV file of Rdatasets, without its row numbers."""
    with file.open("rb") as text:
        return _read_csv(text).select(MCYCLE)


def nycflights13(file: Path) -> pa.Table:
    """Read the CSV file of Rdatasets, without flights that did not arrive."""
    with file.open("rb") as text:
        flights = _read_csv(text, types={"time_hour": pa.string()}).select(FLIGHTS)
    return flights.filter(pc.is_valid(flights["arr_delay"]))


def parkinsons(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: voice measurements, with a header."""
    with open_in_zip(file, "parkinsons_updrs.data") as text:
        return _move_target_last(_read_csv(text), "total_UPDRS")


def protein(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: a header and numbers of few digits, the target first."""
    with open_in_zip(file, "CASP.csv") as text:
        return _to_single_precision(_move_target_last(_read_csv(text), "RMSD"), keep=("F5", "F7"))


def song(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: numbers without a header, the target first."""
    types = dict.fromkeys(SONG, pa.float32()) | {"year": pa.int16()}
    with open_in_zip(file, "YearPredictionMSD.txt") as text:
        return _move_target_last(_read_csv(text, SONG, types=types), "year")


def supercond(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: numbers with a header."""
    with open_in_zip(file, "train.csv") as text:
        return _to_single_precision(_move_target_last(_read_csv(text), "critical_temp"))


def winered(file: Path) -> pa.Table:
    """Read UCI's ZIP archive: red wines separated by semicolons, with a header."""
    with open_in_zip(file, "winequality-red.csv") as text:
        return _move_target_last(_read_csv(text, delimiter=";"), "quality")


def _read_two_parts(file: Path, name: str, names: Sequence[str]) -> pa.Table:
    """Read a training and a test file into one table, whose first column names the part."""
    parts = []
    for part, ending in (("train", "data"), ("test", "test")):
        with open_in_tar(file, f"{name}.{ending}") as text:
            table = _read_csv(text, names)
        parts.append(table.add_column(0, "part", pa.repeat(part, table.num_rows)))
    return pa.concat_tables(parts, promote_options="permissive")


def _read_csv(
    text: BufferedIOBase,
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    types: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Read CSV; names are for a file without a header."""
    return pyarrow.csv.read_csv(
        text,
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types),
    )


def _move_target_last(table: pa.Table, target: str) -> pa.Table:
    return table.select([*(name for name in table.column_names if name != target), target])


def _to_single_precision(table: pa.Table, keep: Collection[str] = ()) -> pa.Table:
    fields = [
        field.with_type(pa.float32())
        if pa.types.is_float64(field.type) and field.name not in keep
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


DAMAGE_ERRORS = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)
"""Errors that reading a damaged archive raises, besides OSError."""


@contextmanager
def open_in_zip(archive: Path, name: str) -> Iterator[BufferedIOBase]:
    """Open a file of a ZIP archive by its name, in any folder of the archive."""
    with (
        zipfile.ZipFile(archive) as opened,
        opened.open(_full_name(name, opened.namelist())) as file,
    ):
        yield cast(BufferedIOBase, file)


@contextmanager
def open_in_tar(archive: Path | BufferedIOBase, name: str) -> Iterator[BufferedIOBase]:
    """Open a file of a TAR archive, compressed or not; the archive may be an open file."""
    with (
        tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive)
    ) as opened:
        file = opened.extractfile(_full_name(name, opened.getnames()))
        if file is None:
            raise ValueError(f"{name} must be a file in the archive. Got something else.")
        with file:
            yield cast(BufferedIOBase, file)


def _full_name(name: str, full_names: Iterable[str]) -> str:
    """Return the name of a file with its folders."""
    for full_name in full_names:
        if PurePosixPath(full_name).name == name:
            return full_name
    raise ValueError(f"The archive must contain {name}. Got none of that name.")


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
