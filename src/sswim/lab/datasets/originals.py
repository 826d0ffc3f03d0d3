"""The files in which data sets were published, as tables with the target last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sswim.lab.datasets.archives import tarred, zipped
from sswim.lab.datasets.columns import (
    ABALONE,
    AILERONS,
    AIRFOIL,
    BUZZ,
    CONCRETE,
    CREEP,
    ELEVATORS,
    FLIGHTS,
    SONG,
)


def abalone(file: Path) -> pa.Table:
    """UCI's ZIP archive: numbers and a letter for the sex, without a header."""
    with zipped(file, "abalone.data") as text:
        return _read(text, ABALONE)


def ailerons(file: Path) -> pa.Table:
    """Torgo's TAR archive."""
    return _two_parts(file, "ailerons", AILERONS)


def airfoil(file: Path) -> pa.Table:
    """UCI's ZIP archive: numbers with tabs between, without a header."""
    with zipped(file, "airfoil_self_noise.dat") as text:
        return _read(text, AIRFOIL, delimiter="\t")


def bikeshare(file: Path) -> pa.Table:
    """UCI's ZIP archive: the hours of two years, with a header."""
    with zipped(file, "hour.csv") as text:
        return _target_last(_read(text, types={"dteday": pa.string()}), "cnt")


def buzz(file: Path) -> pa.Table:
    """UCI's ZIP archive of TAR archives: numbers without a header."""
    with zipped(file, "regression.tar.gz") as archive, tarred(archive, "Twitter.data") as text:
        return _read(text, BUZZ)


def concrete(file: Path) -> pa.Table:
    """UCI's CSV file, whose header has shorter names than the spreadsheet."""
    with file.open("rb") as text:
        return _read(text).rename_columns(CONCRETE)


def creep(file: Path) -> pa.Table:
    """The TAR archive of the Materials Algorithms Project: numbers with blanks between."""
    with tarred(file, "taka") as text:
        values = np.loadtxt(text, ndmin=2)
    return _target_last(pa.table(list(values.T), names=CREEP), "Rupture_stress")


def ct_slice(file: Path) -> pa.Table:
    """UCI's ZIP archive: patients, histograms and positions, with a header."""
    with zipped(file, "slice_localization_data.csv") as text:
        return _target_last(_read(text), "reference")


def elevators(file: Path) -> pa.Table:
    """Torgo's TAR archive."""
    return _two_parts(file, "elevators", ELEVATORS)


def nycflights13(file: Path) -> pa.Table:
    """The CSV file of Rdatasets, of which flights that did not arrive are left out."""
    with file.open("rb") as text:
        flights = _read(text, types={"time_hour": pa.string()}).select(FLIGHTS)
    return flights.filter(pc.is_valid(flights["arr_delay"]))


def parkinsons(file: Path) -> pa.Table:
    """UCI's ZIP archive: voice measurements, with a header."""
    with zipped(file, "parkinsons_updrs.data") as text:
        return _target_last(_read(text), "total_UPDRS")


def protein(file: Path) -> pa.Table:
    """UCI's ZIP archive: a header and numbers of few digits, the target first."""
    with zipped(file, "CASP.csv") as text:
        return _in_single_precision(_target_last(_read(text), "RMSD"), but=("F5", "F7"))


def song(file: Path) -> pa.Table:
    """UCI's ZIP archive: numbers without a header, the target first."""
    types = dict.fromkeys(SONG, pa.float32()) | {"year": pa.int16()}
    with zipped(file, "YearPredictionMSD.txt") as text:
        return _target_last(_read(text, SONG, types=types), "year")


def supercond(file: Path) -> pa.Table:
    """UCI's ZIP archive: numbers with a header."""
    with zipped(file, "train.csv") as text:
        return _in_single_precision(_target_last(_read(text), "critical_temp"))


def _two_parts(file: Path, name: str, names: Sequence[str]) -> pa.Table:
    """Files for training and for testing, one after the other; a first column says which."""
    parts = []
    for part, ending in (("train", "data"), ("test", "test")):
        with tarred(file, f"{name}.{ending}") as text:
            table = _read(text, names)
        parts.append(table.add_column(0, "part", pa.repeat(part, table.num_rows)))
    return pa.concat_tables(parts, promote_options="permissive")


def _read(
    text: BufferedIOBase,
    names: Sequence[str] | None = None,
    delimiter: str = ",",
    types: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Read CSV; with names, a file that has no header."""
    return pyarrow.csv.read_csv(
        text,
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types),
    )


def _target_last(table: pa.Table, target: str) -> pa.Table:
    return table.select([*(name for name in table.column_names if name != target), target])


def _in_single_precision(table: pa.Table, but: Collection[str] = ()) -> pa.Table:
    fields = [
        field.with_type(pa.float32())
        if pa.types.is_float64(field.type) and field.name not in but
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
