"""The frame of the fuzz tests in ``tests/fuzz``: how many examples, limits of time, and counts.

A property is a function of random values, decorated by :func:`fuzz`, in a file
``tests/fuzz/test_fuzz_*.py``::

    @fuzz(small=3, full=2_000, limit=10.0, table=tables(), seed=st.integers(0, 2**32 - 1))
    @example(table=Table(n_rows=1), seed=0)  # failed once: what went wrong
    def test_fits_are_finite(table: Table, seed: int) -> None:
        with may_refuse():
            regressor = fit(table, seed)
        assert np.isfinite(regressor.predict(table.inputs)).all()

* ``small`` examples are tried by ``make test``, always the same ones; ``full`` examples times the
  scale by ``make fuzz SCALE=1``, in parts of ``part`` examples, each with a seed of its own, so
  that all cores have something to do. Explicit examples are tried once.
* A ``UserError`` inside ``with may_refuse():`` is an expected refusal: it is counted and ends the
  example. Anywhere else it is a failure, like every other exception and every warning. A property
  that goes on after a refusal calls :func:`count_refusal` instead.
* An example that takes longer than ``limit`` seconds fails with :class:`Hang`. If it hangs where no
  Python code runs, the process ends with a traceback after ``4 * limit`` seconds.
* A property has no fixtures: use ``tempfile`` for files. Draw small values (numbers of rows,
  settings, a seed for numpy) rather than arrays: they are faster, and print as one line.
* A failure prints the shrunk example and the command that runs it again.
* With ``SSWIM_FUZZ_RESULTS=FILE`` one JSON line for each property is appended to the file:
  examples tried, refusals, fits (see :func:`count_fit`), failures, seconds, versions.
  :class:`FuzzCounts` does that.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import platform
import re
import signal
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

from sswim.base.validation import UserError
from sswim.base.version import __version__

SCALE = "SSWIM_FUZZ_SCALE"
"""Environment variable: how many times the full number of examples is tried; unset for few."""
CASE = "SSWIM_FUZZ_CASE"
"""Environment variable: the one example to run again, as a failure prints it."""

Property = Callable[..., None]

_MORE_PHASES = [] if os.environ.get(SCALE) and not os.environ.get(CASE) else [Phase.shrink]
"""A full run does not shrink what fails, which takes minutes; running the case again does."""


class Hang(AssertionError):  # noqa: N818 (not an error of the package)
    """An example took too long."""


class _Expired(BaseException):
    """Time is over. No ``except Exception`` of the package may swallow it."""


class _Refused(Exception):  # noqa: N818 (no error: it ends the example)
    """The package refused the example, as it may."""


@dataclass
class Tally:
    """Counts of one part of a property."""

    tried: int = 0
    refused: int = 0
    fits: int = 0
    seconds: float = 0.0


_tallies: list[Tally] = []
"""The tally of the part that runs, if one does."""


def count_refusal() -> None:
    """Count a refusal of the package that the property expects."""
    _tallies[-1].refused += 1


def count_fit() -> None:
    """Count a fit."""
    _tallies[-1].fits += 1


@contextmanager
def may_refuse() -> Iterator[None]:
    """End the example, and count it, if the package refuses what is done here."""
    try:
        yield
    except UserError as error:
        count_refusal()
        raise _Refused from error


def fuzz(
    *, small: int, full: int, limit: float = 60.0, part: int = 500, **strategies: Any
) -> Callable[[Property], Property]:
    """Make a test of a property; the module's docstring says how.

    Args:
        small: Number of examples in ``make test``.
        full: Number of examples in ``make fuzz``.
        limit: Seconds that one example may take.
        part: Largest number of examples in one test of a full run.
        strategies: Strategy of each argument of the property.
    """
    total = round(full * _scale()) or small
    n_parts = 1 if os.environ.get(CASE) else -(-total // part)

    def decorate(body: Property) -> Property:
        @pytest.mark.parametrize("part", range(n_parts))
        def test(part: int, record_property: Callable[[str, object], None]) -> None:
            tally = Tally()
            _tallies.append(tally)
            run = _search(body, strategies, limit, tally, part, len(range(part, total, n_parts)))
            start = time.perf_counter()
            try:
                run()
            except hypothesis.errors.DidNotReproduce:
                return  # the case that was run again is mended
            except BaseException as error:
                _say_how_to_run_it_again(error)
                raise
            finally:
                _tallies.pop()
                tally.seconds = time.perf_counter() - start
                record_property("fuzz", vars(tally))

        test.__name__, test.__module__ = body.__name__, body.__module__
        test.__doc__ = body.__doc__
        return test

    return decorate


def _search(
    body: Property,
    strategies: dict[str, Any],
    limit: float,
    tally: Tally,
    part: int,
    n_examples: int,
) -> Callable[[], None]:
    """Return the search of Hypothesis for an example that fails."""

    @functools.wraps(body)
    def one(**arguments: Any) -> None:
        tally.tried += 1
        try:
            with _limited(limit):
                body(**arguments)
        except _Refused:
            return
        except _Expired as error:
            raise Hang(f"An example took longer than {limit:g} s.") from error

    search: Any = hypothesis.given(**strategies)(one)
    search = hypothesis.settings(
        max_examples=n_examples,
        phases=[Phase.generate, *_MORE_PHASES] + [Phase.explicit] * (part == 0),
        database=None,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )(search)
    case = os.environ.get(CASE)
    if case:
        return hypothesis.reproduce_failure(hypothesis.__version__, case.encode())(search)
    return hypothesis.seed(zlib.crc32(f"{body.__name__} {part}".encode()))(search)


@contextmanager
def _limited(limit: float) -> Iterator[None]:
    """Raise :class:`_Expired` after a number of seconds; end the process if that does not help."""

    def expired(*_: object) -> None:
        raise _Expired

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, limit)
    faulthandler.dump_traceback_later(4 * limit, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _say_how_to_run_it_again(error: BaseException) -> None:
    notes = "\n".join(getattr(error, "__notes__", ()))
    found = re.search(r"@reproduce_failure\('[^']*', b'([^']*)'\)", notes)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("[")[0]
    command = f"python -m pytest '{test}'"
    if found:
        command = f"{CASE}='{found[1]}' {command}"
    error.add_note(
        f"Run this example again with\n\n    {command}\n\n"
        "and keep it as an @example of the property, with a comment on what went wrong."
    )


class FuzzCounts:
    """A plugin of pytest that adds up the reports of all parts, whichever process sent them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = path.read_text(encoding="utf-8") if path.exists() else ""
        self.properties: dict[str, dict[str, Any]] = defaultdict(
            lambda: {"tried": 0, "refused": 0, "fits": 0, "failures": 0, "seconds": 0.0}
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one report."""
        if "test_fuzz_" not in report.nodeid:
            return
        counts = self.properties[report.nodeid.rpartition("::")[2].partition("[")[0]]
        counts["failures"] += report.failed
        tallies: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and "fuzz" in tallies:
            for name, value in tallies["fuzz"].items():
                counts[name] += value
            self._write()

    def _write(self) -> None:
        """Append one line for each property to what the file had; a run may end at any time."""
        shared = {
            "scale": _scale(),
            "cores": os.cpu_count(),
            "sswim": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "hypothesis")},
        }
        lines = [
            {"property": name, **counts, "seconds": round(counts["seconds"], 1), **shared}
            for name, counts in sorted(self.properties.items())
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.path.write_text(self.before + text, encoding="utf-8")


def _scale() -> float:
    """Return the scale of a full run, or 0 in the small one of ``make test``."""
    return float(os.environ.get(SCALE) or 0)
