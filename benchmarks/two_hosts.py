"""One training on two hosts, which are network namespaces of this machine joined by a cable.

    python benchmarks/two_hosts.py

Each host has an address, a loopback device and a virtual Ethernet device of its own, and reaches
nothing but the other host. torchrun on each starts one process, they train a model together, and it
must be that of one process alone; the bytes that went through the cable are counted. Where hosts
cannot be made the script says why and ends with 0.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from launches import (
    PATIENCE,
    alone,
    fit,
    is_launched,
    kill,
    largest_difference,
    run,
    torchrun,
    write_rows,
)

from sswim.estimator.regressor import SSWIMRegressor

N_ROWS = 61_000
"""More than a sample has, so that each host reads its own rows again for every pass."""

N_STEPS = 20

OPTIONS = (
    "--depth=1",
    "--n-components=32",
    "--n-pseudo=8",
    f"--max-iter={N_STEPS}",
    "--memory=1MiB",
)

TOLERANCE = 1e-8

PORT = 29500


class SkippedError(Exception):
    """Why two hosts cannot be made here."""


@dataclass(frozen=True)
class Host:
    """A network namespace with one device."""

    name: str
    """Of both."""
    address: str

    def inside(self, command: list[str]) -> list[str]:
        """What runs a command there."""
        return ["ip", "netns", "exec", self.name, *command]

    def running(self) -> list[int]:
        """The processes there."""
        return [int(pid) for pid in _output(["ip", "netns", "pids", self.name]).split()]

    def received(self) -> int:
        """Bytes that have come through the cable so far."""
        counter = f"/sys/class/net/{self.name}/statistics/rx_bytes"
        return int(_output(self.inside(["cat", counter])))


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Hosts of this run alone, which are taken down in the end with all that runs on them."""
    if shutil.which("ip") is None:
        raise SkippedError("the command ip (of iproute2) is not there")
    names = [f"sswim{os.getpid()}{letter}" for letter in "ab"]
    hosts = Host(names[0], "10.123.0.1"), Host(names[1], "10.123.0.2")
    with ExitStack() as stack:
        for host in hosts:
            _make(["ip", "netns", "add", host.name])
            stack.callback(_take_down, host)
        one, other = names
        cable = ["type", "veth", "peer", "name", other, "netns", other]
        _make(["ip", "link", "add", one, "netns", one, *cable])
        for host in hosts:
            place = ["ip", "-n", host.name]
            _make([*place, "address", "add", f"{host.address}/24", "dev", host.name])
            _make([*place, "link", "set", "lo", "up"])
            _make([*place, "link", "set", host.name, "up"])
        yield hosts


def _make(command: list[str]) -> None:
    try:
        _output(command)
    except subprocess.CalledProcessError as error:
        raise SkippedError(f"{' '.join(command)}: {error.stderr.strip()}") from error


def _take_down(host: Host) -> None:
    kill(host.running())
    _output(["ip", "netns", "delete", host.name])


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def train_on(hosts: tuple[Host, Host], table: Path, model: Path) -> list[int]:
    """Train on both hosts, which see the same files; the bytes that each received."""
    before = [host.received() for host in hosts]
    with ExitStack() as stack:
        processes = []
        for host in hosts:
            launcher = torchrun(
                1,
                "--nnodes=2",
                "--rdzv-backend=c10d",
                f"--rdzv-endpoint={hosts[0].address}:{PORT}",
                f"--rdzv-id={hosts[0].name}",
                # Names of hosts lead nowhere here: both have that of the machine.
                f"--rdzv-conf=is_host={int(host is hosts[0])}",
                f"--local-addr={host.address}",
            )
            command = host.inside([*launcher, *fit(table, model, *OPTIONS)])
            log = model.parent / f"{host.name}.log"
            interface = {"GLOO_SOCKET_IFNAME": host.name}
            processes.append((stack.enter_context(is_launched(command, log, interface)), log))
        for process, log in processes:
            if process.wait(PATIENCE) != 0:
                raise RuntimeError(f"A host ended with {process.returncode}: {log.read_text()}")
    return [host.received() - bytes_ for host, bytes_ in zip(hosts, before, strict=True)]


def gradient_bytes(model: Path) -> int:
    """Of all steps, each of which has a number for every parameter."""
    [member] = SSWIMRegressor.load(model)._models
    return N_STEPS * 8 * sum(parameter.numel() for parameter in member.parameters())


def main() -> None:
    """Train on two hosts and on one, and compare."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and take down
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        together, single = folder / "together.sswim", folder / "alone.sswim"
        try:
            with two_hosts() as hosts:
                table = write_rows(folder / "rows", N_ROWS)
                received = train_on(hosts, table, together)
        except SkippedError as reason:
            print(f"Skipped: two hosts cannot be made here: {reason}.")
            return
        run([*alone(), *fit(table, single, *OPTIONS)], folder / "alone.log")
        difference, expected = largest_difference(together, single), gradient_bytes(together)
    print(f"Largest relative difference to one process: {difference:.2g} (at most {TOLERANCE:g}).")
    print(f"Bytes received by each host: {received}; gradients are {expected}.")
    if difference > TOLERANCE:
        sys.exit("Two hosts must learn what one process learns.")
    if min(received) < expected:
        sys.exit("The gradients must go through the cable. Got fewer bytes.")


if __name__ == "__main__":
    main()
