"""The catalogue of data sets, compared with the available files and with the docs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab_builders.datasets import available_file
from sswim_lab.datasets import DATA_SETS, load, split

DOCUMENT = Path(__file__).parents[3] / "docs" / "data.md"


def test_the_catalogue_is_complete() -> None:
    assert list(DATA_SETS) == [
        *("elevators", "airfoil", "concrete", "parkinsons", "bikeshare", "ct_slice", "supercond"),
        *("protein", "buzz", "song", "abalone", "creep", "ailerons"),
        *("prism_elevation", "nycflights13", "powerplant", "kin8nm", "pumadyn32nm", "winered"),
        *("mcycle", "maunaloa_co2"),
    ]
    for name, each in DATA_SETS.items():
        assert each.name == name
        assert each.page.startswith("https://")
        assert each.original is None or each.original.url.startswith("https://")
        assert "" not in (each.target, each.source, each.licence, each.treatment)
    assert [each.n_train for each in DATA_SETS.values() if each.n_train] == [1000, 800, 1003]
    assert [each.in_paper for each in DATA_SETS.values()] == [True] * 13 + [False] * 8


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_catalogue_agrees_with_the_real_files(name: str) -> None:
    known = DATA_SETS[name]
    folder = available_file(name).parent
    table = load(name, folder)
    assert table.x.shape == (known.n_rows, known.n_inputs)
    assert table.target == known.target
    assert len(set(table.inputs)) == known.n_inputs
    rows = split(name, 9, folder)
    assert len(rows.train_y) == (known.n_train or round(2 * known.n_rows / 3))
    order = np.random.RandomState(9).permutation(known.n_rows)
    assert np.array_equal(np.concatenate([rows.train_y, rows.test_y]), table.y[order])


def test_the_catalogue_agrees_with_the_docs() -> None:
    if not DOCUMENT.exists():
        pytest.skip("the documents are not beside the tests")
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| `")]
    assert rows == [
        f"| `{each.name}` | {each.n_rows:,} | {each.n_inputs} | `{each.target}` "
        f"| [{each.source}]({each.page}) | {each.licence} | {each.treatment} |"
        for each in DATA_SETS.values()
    ]
