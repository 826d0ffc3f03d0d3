"""The bytes and the text of a CSV file, compressed or not."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from sswim.tables.csv_options import BLANKS

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")

GZIP_RATIO = 6
"""Approximate size of a decompressed file relative to the compressed one."""

BLOCK_BYTES = 2**20
"""Number of bytes that are read at once."""

BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Encodings by the byte-order marks that files begin with."""


def is_csv(path: str | Path) -> bool:
    """Return whether a file name has a suffix of a CSV file."""
    return Path(path).name.lower().endswith(CSV_SUFFIXES)


def csv_suffix(path: str | Path) -> str:
    """Return the suffix of a CSV file, in lower case."""
    return next(suffix for suffix in CSV_SUFFIXES if Path(path).name.lower().endswith(suffix))


def is_gzip(path: str | Path) -> bool:
    """Return whether a file name is that of a compressed file."""
    return Path(path).name.lower().endswith(".gz")


def text_size(path: str | Path) -> int:
    """Return the size of a file's text, which is estimated if the file is compressed."""
    return os.path.getsize(path) * (GZIP_RATIO if is_gzip(path) else 1)


def open_bytes(path: str | Path) -> pa.NativeFile:
    """Open a file, compressed or not, as a stream of the bytes of its text."""
    stream = pa.OSFile(str(path))
    return pa.CompressedInputStream(stream, "gzip") if is_gzip(path) else stream


def open_text(path: str | Path, encoding: str, separator: str = ",") -> pa.NativeFile:
    """Open a file as a stream of UTF-8 text; runs of blanks that separate cells become tabs."""
    stream = open_bytes(path)
    if not is_utf8(encoding):
        stream = pa.transcoding_input_stream(stream, encoding, "utf-8")
    return pa.PythonFile(_TabbedStream(stream), "r") if separator == BLANKS else stream


def is_utf8(encoding: str) -> bool:
    """Return whether text in an encoding can be read as UTF-8 as it is."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def blocks(stream: pa.NativeFile, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Read a stream to its end."""
    while block := stream.read(size):
        yield block


def exact_encoding(path: str | Path, given: str) -> str:
    """Return the name of a given encoding that neither reads nor writes a byte-order mark."""
    name = codecs.lookup(given).name
    if name == "utf-8-sig":
        return "utf-8"
    if name not in ("utf-16", "utf-32"):
        return name
    with open_bytes(path) as stream:
        start = stream.read(4)
    big = {"utf-16": codecs.BOM_UTF16_BE, "utf-32": codecs.BOM_UTF32_BE}[name]
    return f"{name}-be" if start.startswith(big) else f"{name}-le"


def find_encoding(path: str | Path) -> str:
    """Return the encoding of a file.

    It is that of its byte-order mark if there is one, UTF-8 if the whole file is valid, and that of
    Windows in Western Europe otherwise. All of the file is read: one accent far down decides.
    """
    with open_bytes(path) as stream:
        start = stream.read(BLOCK_BYTES)
    for mark, encoding in BOMS.items():
        if start.startswith(mark):
            return encoding
    if b"\0" in start:  # UTF-16 of Western text, without a mark
        return "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
    return next((each for each in ("utf-8", "cp1252") if _decodes(path, each)), "latin-1")


def _decodes(path: str | Path, encoding: str) -> bool:
    """Return whether a file is valid in an encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with open_bytes(path) as stream:
            for block in blocks(stream):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class _TabbedStream(io.RawIOBase):
    """Text whose cells are separated by blanks, with one tab in the place of each run of them."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._lines = _tabbed(blocks(stream))
        self._pending = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes, and none at the end only."""
        if not self._pending:
            self._pending = next(self._lines, b"")
        size = len(self._pending) if size < 0 else size
        found, self._pending = self._pending[:size], self._pending[size:]
        return found


def _tabbed(text: Iterable[bytes]) -> Iterator[bytes]:
    """Return blocks of whole lines, with tabs in the place of blanks."""
    rest = b""
    for block in text:
        *lines, rest = (rest + block).splitlines(keepends=True) or [b""]
        yield from filter(None, [b"".join(map(_tabbed_line, lines))])
    yield _tabbed_line(rest)


def _tabbed_line(line: bytes) -> bytes:
    return b"\t".join(line.split()) + (b"\n" if line.endswith((b"\n", b"\r")) else b"")
