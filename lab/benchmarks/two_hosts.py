"""Check that training on two hosts gives the same model as training in one process.

    python lab/benchmarks/two_hosts.py

The hosts are network namespaces of this machine, joined by a virtual cable. Each has its own
address, loopback device and virtual Ethernet device, and reaches only the other host. torchrun
starts one process on each, and they train one model together. The bytes that go through the cable
are counted. If the hosts cannot be made, the script says why and exits with code 0.
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
    fit_arguments,
    kill,
    largest_difference,
    launch,
    python_command,
    run,
    torchrun_command,
    write_rows,
)
from scripting import script_parser

from sswim import load

N_ROWS = 61_000
"""More rows than the largest sample, so that each host reads its rows again in every pass."""

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
    """Error with the reason why two hosts cannot be made here."""


@dataclass(frozen=True)
class Host:
    """A network namespace with one device."""

    name: str
    """Name of both the namespace and the device."""
    address: str

    def inside(self, command: list[str]) -> list[str]:
        """Return the command that runs another command on this host."""
        return ["ip", "netns", "exec", self.name, *command]

    def running(self) -> list[int]:
        """Return the ids of the processes on this host."""
        return [int(pid) for pid in _output(["ip", "netns", "pids", self.name]).split()]

    def received(self) -> int:
        """Return the number of bytes received through the cable so far."""
        counter = f"/sys/class/net/{self.name}/statistics/rx_bytes"
        return int(_output(self.inside(["cat", counter])))


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts for this run; at the end, remove them and kill their processes."""
    if shutil.which("ip") is None:
        raise SkippedError("the command ip (of iproute2) is not installed")
    names = [f"sswim{os.getpid()}{letter}" for letter in "ab"]
    hosts = Host(names[0], "10.123.0.1"), Host(names[1], "10.123.0.2")
    with ExitStack() as stack:
        for host in hosts:
            _make(["ip", "netns", "add", host.name])
            stack.callback(_remove, host)
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
    """Run a command; raise SkippedError if it fails."""
    try:
        _output(command)
    except subprocess.CalledProcessError as error:
        raise SkippedError(f"{' '.join(command)}: {error.stderr.strip()}") from error


def _remove(host: Host) -> None:
    """Kill the processes on a host and delete it."""
    kill(host.running())
    _output(["ip", "netns", "delete", host.name])


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def train_on(hosts: tuple[Host, Host], table: Path, model: Path) -> list[int]:
    """Train on both hosts, which see the same files; return the bytes that each received."""
    before = [host.received() for host in hosts]
    with ExitStack() as stack:
        processes = []
        for host in hosts:
            launcher = torchrun_command(
                1,
                "--nnodes=2",
                "--rdzv-backend=c10d",
                f"--rdzv-endpoint={hosts[0].address}:{PORT}",
                f"--rdzv-id={hosts[0].name}",
                # torchrun cannot tell the hosts by name: both have the name of the machine.
                f"--rdzv-conf=is_host={int(host is hosts[0])}",
                f"--local-addr={host.address}",
            )
            command = host.inside([*launcher, *fit_arguments(table, model, *OPTIONS)])
            log = model.parent / f"{host.name}.log"
            interface = {"GLOO_SOCKET_IFNAME": host.name}
            processes.append((stack.enter_context(launch(command, log, interface)), log))
        for process, log in processes:
            if process.wait(PATIENCE) != 0:
                raise RuntimeError(
                    f"Training must succeed on both hosts. One ended with {process.returncode}: "
                    f"{log.read_text()}"
                )
    return [host.received() - bytes_ for host, bytes_ in zip(hosts, before, strict=True)]


def gradient_bytes(model: Path) -> int:
    """Return the number of bytes of the gradients of all steps."""
    [member] = load(model).members_
    return N_STEPS * 8 * sum(parameter.numel() for parameter in member.model.parameters())


def main() -> None:
    """Train on two hosts and in one process, and compare."""
    script_parser(__doc__).parse_args()
    # An exception, so that the hosts are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
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
        command = [*python_command(), *fit_arguments(table, single, *OPTIONS)]
        run(command, folder / "alone.log")
        difference, expected = largest_difference(together, single), gradient_bytes(together)
    print(f"Largest relative difference to one process: {difference:.2g} (at most {TOLERANCE:g}).")
    print(f"Bytes received by each host: {received}; gradients are {expected}.")
    if difference > TOLERANCE:
        sys.exit("Two hosts must train the same model as one process. Got a larger difference.")
    if min(received) < expected:
        sys.exit("The gradients must go through the cable. Got fewer bytes.")


if __name__ == "__main__":
    main()
