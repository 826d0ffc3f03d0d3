"""Where commands may write, and what they refuse before they begin to work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders.commands import fit_prices, refuse

from sswim import load
from sswim.estimator import BaseRegressor


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object, **__: object) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(BaseRegressor, "fit", fit)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (os.devnull, "which is a device"),
        ("", "which is a folder"),
        ("locked", "which is read-only"),
        ("missing/m.sswim", "Make the folder"),
        ("notes.txt", "give --force to replace it"),
        ("table.parquet", "must not replace an input"),
    ],
)
def test_fit_refuses_outputs_before_training(
    name: str, words: str, table: Path, tmp_path: Path
) -> None:
    data, locked = tmp_path / "notes.txt", tmp_path / "locked"
    for path in (data, locked):
        path.write_text("mine")
    locked.chmod(0o444)
    result = fit_prices(table, tmp_path / name)
    assert result.exit_code == 1
    assert words in " ".join(result.stderr.split())
    assert data.read_text() == locked.read_text() == "mine"


def test_fit_replaces_models_empty_files_and_others_by_force(table: Path, tmp_path: Path) -> None:
    out, old, link = tmp_path / "m.sswim", tmp_path / "old.txt", tmp_path / "link"
    out.touch()
    old.write_text("old")
    link.symlink_to(out)
    for path, options in ((out, ()), (link, ()), (old, ("--force",))):
        fitted = fit_prices(table, path, *options)
        assert fitted.exit_code == 0, fitted.stderr
        assert load(path).n_iter_ == 3
    assert link.is_symlink()
    assert not out.is_symlink()


def test_a_model_that_cannot_be_saved_is_kept_elsewhere(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, spare, save = tmp_path / "m.sswim", tmp_path / "spare", BaseRegressor.save
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))

    def save_elsewhere(self: BaseRegressor, path: Path, *, include_rows: bool) -> None:
        if path == out:
            raise OSError(28, "No space left on device")
        save(self, path, include_rows=include_rows)

    monkeypatch.setattr(BaseRegressor, "save", save_elsewhere)
    result = fit_prices(table, out, "--checkpoints", str(tmp_path / "checkpoint"))
    assert result.exit_code == 1
    assert "No space left on device" in " ".join(result.stderr.split())
    (kept,) = spare.glob("*/m.sswim")
    assert str(kept) in result.stderr.replace("\n", "")
    assert load(kept).n_iter_ == 3
    assert not out.exists()
    assert (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("command", "suffix"), [("predict", ".parquet"), ("grid", ".tif"), ("report", ".html")]
)
def test_outputs_are_refused_before_the_model_is_loaded(
    command: str, suffix: str, table: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, link = model.with_name(f"folder{suffix}"), model.with_name(f"link{suffix}")
    folder.mkdir()
    link.symlink_to(model)
    inputs = [model] if command == "grid" else [model, table]
    before = [path.read_bytes() for path in inputs]
    monkeypatch.setattr("sswim.estimator.load", None)
    refused = dict.fromkeys([link, *inputs[1:]], "must not replace an input")
    refused |= {folder: "which is a folder", folder / f"none/out{suffix}": "Make the folder"}
    for out, words in refused.items():
        assert words in refuse(command, *inputs, "--out", out)
    assert [path.read_bytes() for path in inputs] == before
