from __future__ import annotations

from typing import Any

import pytest

from sswim.base.validation import UserError
from sswim.tables import AS_FOUND, CsvOptions
from sswim.tables.csv_dialect import separator_words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ",,"}, "separator must be one character.*Got ',,'"),
        ({"separator": ""}, "separator must be one character"),
        ({"separator": '"'}, "no letter, digit or quote"),
        ({"separator": "a"}, "no letter, digit or quote"),
        ({"separator": "§"}, "separator must be one character"),
        ({"decimal": ";"}, "decimal mark must be '.' or ','. Got ';'"),
        ({"encoding": "utf-9"}, "encoding must be the name.*Got 'utf-9'"),
        ({"encoding": "base64"}, "encoding must be the name.*Got 'base64'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CsvOptions(**options)


def test_a_model_needs_all_columns_and_its_texts() -> None:
    options = CsvOptions(separator=";", text=("a",)).for_model(["b"])
    assert options == CsvOptions(separator=";", text=("a", "b"), has_model=True)
    assert AS_FOUND.for_model([]).separator is None


def test_separators_have_names() -> None:
    assert separator_words("\t") == "tab"
    assert separator_words(" ") == "blanks"
    assert separator_words("~") == "'~'"
