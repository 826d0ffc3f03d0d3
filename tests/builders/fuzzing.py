"""The frame of the fuzz tests in ``tests/fuzz``: how many examples, and limits of time.

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
* A ``UserError`` inside ``with may_refuse():`` is an expected refusal, and ends the example.
  Anywhere else it is a failure, like every other exception and every warning.
* An example that takes longer than ``limit`` seconds fails with :class:`Hang`. If it hangs where no
  Python code runs, the process ends with a traceback after ``4 * limit`` seconds.
* A property has no fixtures: use ``tempfile`` for files. Draw small values (numbers of rows,
  settings, a seed for numpy) rather than arrays: they are faster, and print as one line.
* A failure prints the example, shrunk in a small run, and a line ``@reproduce_failure(...)``.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase

from sswim.base.validation import UserError

SCALE = float(os.environ.get("SSWIM_FUZZ_SCALE") or 0)
"""How many times the full number of examples is tried; zero for few."""

Property = Callable[..., None]


class Hang(AssertionError):  # noqa: N818 (not an error of the package)
    """An example took too long."""


class _Expired(BaseException):
    """Time is over. No ``except Exception`` of the package may swallow it."""


class _Refused(Exception):  # noqa: N818 (no error: it ends the example)
    """The package refused the example, as it may."""


@contextmanager
def may_refuse() -> Iterator[None]:
    """End the example if the package refuses what is done here."""
    try:
        yield
    except UserError as error:
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
    total = round(full * SCALE) or small
    n_parts = -(-total // part)

    def decorate(body: Property) -> Property:
        @functools.wraps(body)
        def one(**arguments: Any) -> None:
            try:
                with _limited(limit):
                    body(**arguments)
            except _Refused:
                return
            except _Expired as error:
                raise Hang(f"An example took longer than {limit:g} s.") from error

        @pytest.mark.parametrize("part", range(n_parts))
        def test(part: int) -> None:
            phases = [Phase.generate] if SCALE else [Phase.generate, Phase.shrink]  # takes minutes
            search: Any = hypothesis.settings(
                max_examples=len(range(part, total, n_parts)),
                phases=[*phases, Phase.explicit] if part == 0 else phases,
                database=None,
                deadline=None,
                print_blob=True,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            )(hypothesis.given(**strategies)(one))
            hypothesis.seed(zlib.crc32(f"{body.__name__} {part}".encode()))(search)()

        test.__name__, test.__module__ = body.__name__, body.__module__
        test.__doc__ = body.__doc__
        return test

    return decorate


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
