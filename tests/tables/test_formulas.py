from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from builders.commands import invoke, prices, write_price_model

from sswim.tables import plain_table, read_table, write_table
from sswim.tables.table_copy import plain_cell, plain_record


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        (b"=1+1", b"'=1+1"),
        (b'"=HYPERLINK(""x"")"', b'"\'=HYPERLINK(""x"")"'),
        (b"+cmd", b"'+cmd"),
        (b"-2+3", b"'-2+3"),
        (b"@SUM(A1)", b"'@SUM(A1)"),
        (b" =1", b"' =1"),
        (b"\tx", b"'\tx"),
        (b'"\r=1"', b'"\'\r=1"'),
        *((same, same) for same in (b"", b"x=1", b"-1.5", b"+1e-3", b'"-1,5"', b"a@b", b"-.5")),
    ],
)
def test_formulas_become_text_and_numbers_stay(cell: bytes, plain: bytes) -> None:
    assert plain_cell(cell) == plain


def test_every_cell_of_a_record_is_looked_at() -> None:
    assert plain_record(b'=a,"=b,c",-1,x', ",") == b"'=a,\"'=b,c\",-1,x"
    assert plain_record(b"=a  -1 @b", " ") == b"'=a  -1 '@b"


def test_texts_and_names_of_a_table_become_plain() -> None:
    table = pa.table({"=x": ["=1", "-1", None, "a"], "y": [-1.0, 1.0, 2.0, 3.0]})
    for column in (table["=x"], table["=x"].dictionary_encode()):
        plain = plain_table(table.set_column(0, "=x", column))
        assert plain.to_pydict() == {
            "'=x": ["'=1", "-1", None, "a"],
            "y": [-1.0, 1.0, 2.0, 3.0],
        }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_have_no_formulas_on_request(suffix: str, tmp_path: Path) -> None:
    model = write_price_model(tmp_path)
    rows = prices(8).append_column("=note", pa.array(["=1+1"] * 8))
    given = tmp_path / f"rows.{suffix}"
    write_table(rows, given)
    for option, name, note in (([], "=note", "=1+1"), (["--no-formulas"], "'=note", "'=1+1")):
        out = tmp_path / "out.csv"
        result = invoke("predict", str(model), str(given), "--out", str(out), *option)
        assert result.exit_code == 0, result.output
        assert read_table(out)[name].to_pylist() == [note] * 8
        assert "mean" in read_table(out).column_names
        out.unlink()
