"""Files within archives."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_builders.datasets import publish, stored_table, tar_archive
from sswim_lab.datasets.originals import open_in_tar, open_in_zip


def test_an_archive_without_the_file_raises_an_error(tmp_path: Path) -> None:
    airfoil = publish("airfoil", stored_table("airfoil"), tmp_path)
    with (
        pytest.raises(ValueError, match=r"The archive must contain hour\.csv"),
        open_in_zip(airfoil, "hour.csv"),
    ):
        pass
    file = tmp_path / "some.tgz"
    file.write_bytes(tar_archive({"Elevators/elevators.data": b"1"}))
    with (
        pytest.raises(ValueError, match=r"The archive must contain elevators\.test"),
        open_in_tar(file, "elevators.test"),
    ):
        pass
