"""Small data sets as stored tables and as public files, and splits of the real ones."""

from __future__ import annotations

import gc
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sswim_lab.datasets import Split, find, originals, split
from sswim_lab.datasets.download import folders

BIKESHARE = (
    *("instant", "dteday", "season", "yr", "mnth", "hr", "holiday", "weekday", "workingday"),
    *("weathersit", "temp", "atemp", "hum", "windspeed", "casual", "registered", "cnt"),
)
PARKINSONS = (
    *("subject#", "age", "sex", "test_time", "motor_UPDRS"),
    *originals.numbered("voice", 1, 16),
    "total_UPDRS",
)
STORED = {
    "elevators": ("part", *originals.ELEVATORS),
    "airfoil": originals.AIRFOIL,
    "concrete": originals.CONCRETE,
    "parkinsons": PARKINSONS,
    "bikeshare": BIKESHARE,
    "ct_slice": ("patientId", *originals.numbered("value", 0, 383), "reference"),
    "supercond": (*originals.numbered("property", 1, 81), "critical_temp"),
    "protein": (*originals.numbered("F", 1, 9), "RMSD"),
    "buzz": originals.BUZZ,
    "song": (*originals.SONG[1:], "year"),
    "abalone": originals.ABALONE,
    "creep": (*(name for name in originals.CREEP if name != "Rupture_stress"), "Rupture_stress"),
    "ailerons": ("part", *originals.AILERONS),
    "nycflights13": originals.FLIGHTS,
    "winered": (*originals.numbered("property", 1, 11), "quality"),
    "mcycle": originals.MCYCLE,
}
"""Columns of the stored tables, of all data sets with a public file."""
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
"""Values of text columns."""
WHOLE = ("year", "month", "day", "sched_dep_time", "sched_arr_time")
"""Columns of integers."""
CONSTANT = originals.numbered("value", 0, 4)
"""Columns with a single value."""


def stored_table(name: str) -> pa.Table:
    """Make six rows; numbers are eighths, which are exact in every precision."""
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


def write_columns(folder: Path, name: str, columns: Mapping[str, Sequence[object]]) -> None:
    """Write columns as the stored table of a data set."""
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def publish(name: str, table: pa.Table, folder: Path) -> Path:
    """Write a table in the format of its public file."""
    names = table.column_names
    if name in ("elevators", "ailerons"):
        ending, content = "tgz", _two_part_archive(name, table)
    elif name == "creep":
        rows = csv_text(table.select([names[0], names[-1], *names[1:-1]]), separator="   ")
        ending, content = "tar", tar_archive({"readme": b"Numbers", "taka": rows}, mode="w")
    elif name == "concrete":
        short = ["Cement", "Slag", "Ash", "Water", "Superplasticizer", "Coarse", "Fine", "Age"]
        ending, content = "csv", csv_text(table, header=[*short, "Concrete compressive strength"])
    elif name == "nycflights13":
        ending, content = "csv", _flights_csv(table)
    elif name == "mcycle":
        numbers = pa.array(range(1, table.num_rows + 1))
        numbered = table.add_column(0, "rownames", numbers)
        ending, content = "csv", csv_text(numbered, header=numbered.column_names)
    else:
        ending, content = "zip", zip_archive(_zip_contents(name, table))
    path = folder / f"{name}.{ending}"
    path.write_bytes(content)
    return path


def _zip_contents(name: str, table: pa.Table) -> dict[str, bytes]:
    """Return the files of a UCI archive, also those that are not read."""
    names = table.column_names
    last_first = [names[-1], *names[:-1]]
    sixth = [*names[:5], names[-1], *names[5:-1]]
    twitter = {
        "./regression/TomsHardware/TomsHardware.data": b"1,2\n",
        "./regression/Twitter/Twitter.data": csv_text(table),
    }
    return {
        "airfoil": {"airfoil_self_noise.dat": csv_text(table, separator="\t")},
        "parkinsons": {"parkinsons_updrs.data": csv_text(table.select(sixth), header=sixth)},
        "bikeshare": {"day.csv": b"a\n1\n", "hour.csv": csv_text(table, header=names)},
        "ct_slice": {"slice_localization_data.csv": csv_text(table, header=names)},
        "supercond": {"train.csv": csv_text(table, header=names), "unique_m.csv": b"a\n1\n"},
        "protein": {"CASP.csv": csv_text(table.select(last_first), header=last_first)},
        "buzz": {"classification.tar.gz": b"", "regression.tar.gz": tar_archive(twitter)},
        "song": {"YearPredictionMSD.txt": csv_text(table.select(last_first))},
        "abalone": {"abalone.names": b"?", "abalone.data": csv_text(table)},
        "winered": {
            "winequality-red.csv": csv_text(table, header=names, separator=";"),
            "winequality-white.csv": b"a;b\n1;2\n",
        },
    }[name]


def _two_part_archive(name: str, table: pa.Table) -> bytes:
    folder = name.title()
    files = {f"{folder}/{name}.domain": b"climbRate : continuous."}
    for part, ending in (("train", "data"), ("test", "test")):
        kept = pa.array([each == part for each in table["part"].to_pylist()])
        rows = table.filter(kept).drop_columns(["part"])
        files[f"{folder}/{name}.{ending}"] = csv_text(rows, separator=", ")
    return tar_archive(files)


def _flights_csv(table: pa.Table) -> bytes:
    """Write flights with row numbers, and one more flight that was cancelled."""
    names = table.column_names
    order = [*names[:8], "arr_delay", *names[8:-1]]
    cancelled = pa.table(table.slice(0, 1).to_pydict() | {"arr_delay": ["NA"], "air_time": ["NA"]})
    both = [csv_text(each.select(order)) for each in (table, cancelled)]
    lines = b"".join(both).decode().splitlines()
    numbered = [f"{number},{line}" for number, line in enumerate(lines, 1)]
    return "\n".join([",".join(["rownames", *order]), *numbered]).encode()


def csv_text(table: pa.Table, header: Sequence[str] = (), separator: str = ",") -> bytes:
    """Write lines of values, after a header if one is given."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    lines = [*([header] if header else []), *rows]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines).encode()


def tar_archive(contents: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """Make a TAR archive of files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=mode) as opened:  # type: ignore[call-overload]
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def zip_archive(contents: Mapping[str, bytes]) -> bytes:
    """Make a ZIP archive of files."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in contents.items():
            opened.writestr(name, content)
    return archive.getvalue()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Make a folder, serve its files over HTTP on this machine, and return the address."""
    folder.mkdir()
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))  # ends that soon
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()
    gc.collect()  # so that a warning of an open connection is raised in the test that ignores it


def available_file(name: str) -> Path:
    """Return the file of a data set, or skip the test if there is none; nothing is downloaded."""
    path = find(name)
    if path is None:
        pytest.skip(f"{name}.parquet is in none of {', '.join(map(str, folders()))}")
    return path


def real_split(name: str, repeat: int) -> Split:
    """Return training and test rows of one repeat of a real data set."""
    return split(name, repeat, available_file(name).parent)
