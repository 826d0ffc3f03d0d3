from __future__ import annotations

import pytest

from sswim.demo import main


def test_warps_help_on_the_demo_signal(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    lines = capsys.readouterr().out.strip().splitlines()[-3:]
    errors = [float(line.split()[1]) for line in lines]
    densities = [float(line.split()[2]) for line in lines]
    assert max(errors[1:]) < 0.5 * errors[0]
    assert max(densities[1:]) < densities[0] - 0.5
