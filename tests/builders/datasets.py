"""Small data sets in the form in which they are stored, and in that in which they are published."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sswim.lab.datasets import columns
from sswim.lab.datasets.folders import find, folders
from sswim.lab.datasets.named import Split
from sswim.lab.datasets.named import split as split_named
from sswim.rows.rows import Rows, as_rows
from sswim.rows.scaling import learn_scaling

BIKESHARE = (
    *("instant", "dteday", "season", "yr", "mnth", "hr", "holiday", "weekday", "workingday"),
    *("weathersit", "temp", "atemp", "hum", "windspeed", "casual", "registered", "cnt"),
)
PARKINSONS = (
    *("subject#", "age", "sex", "test_time", "motor_UPDRS"),
    *columns.numbered("voice", 1, 16),
    "total_UPDRS",
)
STORED = {
    "elevators": ("part", *columns.ELEVATORS),
    "airfoil": columns.AIRFOIL,
    "concrete": columns.CONCRETE,
    "parkinsons": PARKINSONS,
    "bikeshare": BIKESHARE,
    "ct_slice": ("patientId", *columns.numbered("value", 0, 383), "reference"),
    "supercond": (*columns.numbered("property", 1, 81), "critical_temp"),
    "protein": (*columns.numbered("F", 1, 9), "RMSD"),
    "buzz": columns.BUZZ,
    "song": (*columns.SONG[1:], "year"),
    "abalone": columns.ABALONE,
    "creep": (*(name for name in columns.CREEP if name != "Rupture_stress"), "Rupture_stress"),
    "ailerons": ("part", *columns.AILERONS),
    "nycflights13": columns.FLIGHTS,
}
"""Names of the columns, of all data sets that are published in a form that can be read."""
TEXTS = {
    "part": ["train", "train", "train", "train", "test", "test"],
    "dteday": ["2011-01-01", "2011-01-02", "2011-01-03", "2012-02-29", "2012-03-01", "2012-12-31"],
    "Sex": ["M", "F", "I", "M", "F", "I"],
    "carrier": ["UA", "AA", "B6", "DL", "9E", "YV"],
    "origin": ["EWR", "JFK", "LGA", "EWR", "JFK", "LGA"],
    "dest": ["IAH", "MIA", "BQN", "ATL", "ORD", "IAH"],
    "tailnum": ["N14228", "N24211", "N619AA", "N804JB", "N668DN", "N39463"],
    "time_hour": ["2013-01-01T10:00:00Z"] * 6,
}
WHOLE = ("year", "month", "day", "sched_dep_time", "sched_arr_time")
CONSTANT = columns.numbered("value", 0, 4)


def stored(name: str) -> pa.Table:
    """Six rows; numbers are eighths, which no precision rounds."""
    random = np.random.default_rng(0)
    table: dict[str, object] = {}
    for column in STORED[name]:
        if column in TEXTS:
            table[column] = TEXTS[column]
        elif column in WHOLE:
            table[column] = random.integers(1, 12, 6)
        else:
            table[column] = random.integers(1, 1000, 6) / 8
        if column in CONSTANT:
            table[column] = [0.25] * 6
    return pa.table(table)


def publish(name: str, table: pa.Table, folder: Path) -> Path:
    """Write a table as its source has it."""
    names = table.column_names
    if name in ("elevators", "ailerons"):
        ending, content = "tgz", _two_parts(name, table)
    elif name == "creep":
        rows = text(table.select([names[0], names[-1], *names[1:-1]]), separator="   ")
        ending, content = "tar", tar({"readme": b"Numbers", "taka": rows}, mode="w")
    elif name == "concrete":
        short = ["Cement", "Slag", "Ash", "Water", "Superplasticizer", "Coarse", "Fine", "Age"]
        ending, content = "csv", text(table, header=[*short, "Concrete compressive strength"])
    elif name == "nycflights13":
        ending, content = "csv", _flights(table)
    else:
        ending, content = "zip", zip_archive(_zipped(name, table))
    path = folder / f"{name}.{ending}"
    path.write_bytes(content)
    return path


def _zipped(name: str, table: pa.Table) -> dict[str, bytes]:
    """The files in an archive of UCI, some of them of no use here."""
    names = table.column_names
    last_first = [names[-1], *names[:-1]]
    sixth = [*names[:5], names[-1], *names[5:-1]]
    twitter = {
        "./regression/TomsHardware/TomsHardware.data": b"1,2\n",
        "./regression/Twitter/Twitter.data": text(table),
    }
    return {
        "airfoil": {"airfoil_self_noise.dat": text(table, separator="\t")},
        "parkinsons": {"parkinsons_updrs.data": text(table.select(sixth), header=sixth)},
        "bikeshare": {"day.csv": b"a\n1\n", "hour.csv": text(table, header=names)},
        "ct_slice": {"slice_localization_data.csv": text(table, header=names)},
        "supercond": {"train.csv": text(table, header=names), "unique_m.csv": b"a\n1\n"},
        "protein": {"CASP.csv": text(table.select(last_first), header=last_first)},
        "buzz": {"classification.tar.gz": b"", "regression.tar.gz": tar(twitter)},
        "song": {"YearPredictionMSD.txt": text(table.select(last_first))},
        "abalone": {"abalone.names": b"?", "abalone.data": text(table)},
    }[name]


def _two_parts(name: str, table: pa.Table) -> bytes:
    folder = name.title()
    files = {f"{folder}/{name}.domain": b"climbRate : continuous."}
    for part, ending in (("train", "data"), ("test", "test")):
        kept = pa.array([each == part for each in table["part"].to_pylist()])
        rows = table.filter(kept).drop_columns(["part"])
        files[f"{folder}/{name}.{ending}"] = text(rows, separator=", ")
    return tar(files)


def _flights(table: pa.Table) -> bytes:
    """With numbers of the rows, and one more that was cancelled."""
    names = table.column_names
    order = [*names[:8], "arr_delay", *names[8:-1]]
    cancelled = pa.table(table.slice(0, 1).to_pydict() | {"arr_delay": ["NA"], "air_time": ["NA"]})
    both = [text(each.select(order)) for each in (table, cancelled)]
    lines = b"".join(both).decode().splitlines()
    numbered = [f"{number},{line}" for number, line in enumerate(lines, 1)]
    return "\n".join([",".join(["rownames", *order]), *numbered]).encode()


def text(table: pa.Table, header: Sequence[str] = (), separator: str = ",") -> bytes:
    """Lines of values, below a header if there is one."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    lines = [*([header] if header else []), *rows]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines).encode()


def tar(contents: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """An archive of files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=mode) as opened:  # type: ignore[call-overload]
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def zip_archive(contents: Mapping[str, bytes]) -> bytes:
    """The same, of the other kind."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in contents.items():
            opened.writestr(name, content)
    return archive.getvalue()


def at_hand(name: str) -> Path:
    """The file of a data set; the test is skipped where there is none, and nothing downloaded."""
    path = find(name)
    if path is None:
        pytest.skip(f"{name}.parquet is in none of {', '.join(map(str, folders()))}")
    return path


def split(name: str, repeat: int) -> Split:
    """Training and test rows of one repeat."""
    return split_named(name, repeat, at_hand(name).parent)


def standardised(rows: Split) -> tuple[Rows, Rows]:
    """Training and test rows, standardised by the former."""
    train = as_rows(rows.train_x, rows.train_y)
    scaling = learn_scaling(train)
    return scaling.rows(train), scaling.rows(as_rows(rows.test_x, rows.test_y))
