"""The data sets on which an experiment is run."""

from __future__ import annotations

from pathlib import Path

from lab_builders.bench import make_request, write_set
from sswim_lab.bench.accuracy import SYNTHETIC
from sswim_lab.paper.experiment import available_sets, sets_to_run

OWN = ("airfoil", "concrete", "creep")


def test_available_sets_are_run_and_the_others_are_named(tmp_path: Path) -> None:
    write_set(tmp_path, "concrete")
    request, said = make_request(tmp_path)
    assert available_sets(request, OWN) == ("concrete",)
    assert sets_to_run(request, OWN, ()) == ("concrete",)
    (note,) = said
    assert "airfoil, creep. Name them to download them: --sets airfoil,creep." in note


def test_requested_sets_are_run_whether_available_or_not(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, sets=("creep",))
    assert sets_to_run(request, OWN, ()) == ("creep",)
    assert said == []


def test_a_quick_run_needs_no_file(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True)
    assert sets_to_run(request, OWN, ("airfoil",)) == (SYNTHETIC,)
    write_set(tmp_path, "airfoil")
    assert sets_to_run(request, OWN, ("airfoil",)) == ("airfoil",)
    assert said == []
