"""Training on two hosts, which are network namespaces; skipped where these cannot be made."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import two_hosts
from launches import PATIENCE, wait_until


@pytest.mark.slow
def test_two_hosts_learn_what_one_process_learns() -> None:
    command = [sys.executable, two_hosts.__file__]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.stdout.startswith("Skipped: "):
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Largest relative difference to one process" in result.stdout


def test_hosts_are_taken_down_with_all_that_runs_on_them() -> None:
    try:
        with two_hosts.two_hosts() as hosts:
            process = subprocess.Popen(hosts[0].inside(["sleep", str(PATIENCE)]))
            wait_until(lambda: process.pid in hosts[0].running())
            raise KeyboardInterrupt
    except two_hosts.SkippedError as reason:
        pytest.skip(str(reason))
    except KeyboardInterrupt:
        assert process.wait(PATIENCE / 2) == -9
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert not any(host.name in names.stdout for host in hosts)


def test_without_ip_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(two_hosts.SkippedError, match="the command ip"), two_hosts.two_hosts():
        pass
