"""Ctrl-C during training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders.commands import write_prices

from sswim import SSWIMRegressor
from sswim.cli.interrupt import stop_on_interrupt


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_prices(tmp_path)


def test_the_second_ctrl_c_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has none
    with stop_on_interrupt() as interruption:
        assert not interruption.requested
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) == signal.default_int_handler
    assert "Ctrl-C again to give up" in capsys.readouterr().err


def test_ctrl_c_keeps_the_best_so_far(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.sswim"
    arguments = ["fit", str(table), "--target", "price", "--drop", "id", "--out", str(out)]
    arguments += ["--max-iter", "100000", "--n-components", "64"]
    imports = "import sswim.cli.app, sswim.estimator.regressor, sswim.tables.table_source"
    program = f"{imports}; print('imported', flush=True); sswim.cli.app.app({arguments})"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "imported\n"
    time.sleep(5)  # well into training, which would take hours
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "keeping the best" in errors
    assert "Training ended after" in errors
    assert "wrote" in output
    assert SSWIMRegressor.load(out).n_iter_ > 0
