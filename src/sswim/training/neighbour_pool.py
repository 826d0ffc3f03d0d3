"""Pools: rows drawn for the next steps of training, with their neighbours.

Neighbours are looked up for a whole pool at once, and again for the next one, because the warped
space moves.

A map or a series may have gaps, and hyper-parameters that have seen only the nearest rows know
nothing of larger distances. So, with few inputs, some rows find their neighbours in a random choice
of few rows, as if there were a gap around them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.base.record import Record, concatenate, map_chunks, rows_at_once
from sswim.base.stored_tensors import require_form, require_that
from sswim.distributed.processes import ALONE, Processes
from sswim.model.observations import kernel_points
from sswim.model.sswim import SSWIM, Factors
from sswim.neighbours.search import TREE_DIMENSIONS
from sswim.posterior.neighbour_index import MAP_INPUTS, NeighbourIndex, thinned
from sswim.rows.rows import Rows

N_NEIGHBORS = 32
"""Largest number of neighbours in training; predictions may have more."""

MAX_CANDIDATES = {"few inputs": 2**20, "many inputs": 2**16, "gpu": 2**20}
"""Largest number of rows among which neighbours are looked up, so that a step costs the same
however many rows there are."""

CHECK_ROWS, CHECK_SEED = 512, 2**40
"""Number of rows by which one pool's end is compared with another's, and their seed."""

EXTRA = 8
"""Neighbours that are looked up beyond those needed, in place of a row's own copies."""

MAP_SPACINGS = ((1, 0.9), (64, 0.1))
"""(one row in n is a candidate, share of the rows of a pool), for maps."""


@dataclass(frozen=True)
class Pool(Record):
    """Rows of the next steps and their neighbours, as numbers of rows."""

    own: Int64[Tensor, " P"]
    neighbours: Int64[Tensor, "P m"]
    present: Bool[Tensor, "P m"]
    """False for the place of a missing neighbour."""


def require_pool(pool: Pool, n_rows: int) -> None:
    """Raise unless the rows of a pool from a checkpoint exist."""
    n_own = len(pool.own)
    require_form("own", pool.own, (n_own,), torch.int64)
    for name, tensor, dtype in (
        ("neighbours", pool.neighbours, torch.int64),
        ("present", pool.present, torch.bool),
    ):
        require_form(name, tensor, (n_own, *pool.neighbours.shape[1:2]), dtype)
    for numbers in (pool.own, pool.neighbours):
        require_that(
            "a pool must have numbers of rows",
            holds=((numbers >= 0) & (numbers < n_rows)).all(),
        )


class PoolSource:
    """Draws pools of rows, each row as often as the others."""

    def __init__(self, rows: Rows, seed: int, processes: Processes = ALONE) -> None:
        """Draw from rows.

        Args:
            rows: All rows, the same in every process.
            seed: Seed of the order of the rows.
            processes: The processes that draw together; each looks for neighbours in some rows.
        """
        self.rows, self.seed, self.processes = rows, seed, processes

    @torch.no_grad()
    def draw(self, model: SSWIM, begin: int, size: int) -> Pool:
        """Return the rows from a place on in the order of all rows, and their neighbours.

        Neighbours are looked up in the present warped space of the model.
        """
        generator = self._generator(begin)
        own = self._own(begin, size).to(self.rows.targets.device)
        spacings = MAP_SPACINGS if model.warped_dim <= MAP_INPUTS else ((1, 1.0),)
        sizes = _sizes(size, spacings)
        pools = [
            self._look_up(model, part, spacing, generator)
            for part, (spacing, _) in zip(own.split(sizes), spacings, strict=True)
        ]
        joined = concatenate(pools)
        order = torch.randperm(size, generator=generator)  # every step has rows of all spacings
        return joined.map(lambda tensor: tensor[order.to(tensor.device)])

    @torch.no_grad()
    def check(self, model: SSWIM) -> Pool:
        """Return rows that are the same in every check, and their neighbours as they are now."""
        generator = self._generator(CHECK_SEED)
        own = torch.randperm(len(self.rows), generator=generator)[:CHECK_ROWS]
        return self._look_up(model, own.to(self.rows.targets.device), 1, generator)

    def _own(self, begin: int, size: int) -> Int64[Tensor, " P"]:
        """Return rows by their places in one permutation of all rows after another."""
        n_rows = len(self.rows)
        first, last = begin // n_rows, (begin + size - 1) // n_rows
        orders = [
            torch.randperm(n_rows, generator=self._generator(-1 - epoch))
            for epoch in range(first, last + 1)
        ]
        start = begin - first * n_rows
        return torch.cat(orders)[start : start + size]

    def _generator(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed((self.seed * 1_000_003 + number) % 2**63)

    def _look_up(
        self, model: SSWIM, own: Int64[Tensor, " P"], spacing: int, generator: torch.Generator
    ) -> Pool:
        n_rows, device = len(self.rows), own.device
        wanted = min(model.architecture.n_neighbors, N_NEIGHBORS)
        most = max_candidates(model.warped_dim, device)
        n_candidates = min(max(n_rows // spacing, 4 * wanted), most, n_rows)
        candidates = torch.arange(n_rows, device=device)
        if n_candidates < n_rows:
            candidates = torch.randperm(n_rows, generator=generator)[:n_candidates].to(device)
        factors, _ = model.condition()
        begin, end = self.processes.share.span(n_candidates)
        own_candidates = candidates[begin:end]
        index = NeighbourIndex(
            self._points(factors, own_candidates),
            thinned(self.rows.inputs.mean[own_candidates]),
            begin,
            self.processes,
        )
        points = self._points(factors, own)
        found = index.neighbours(points, min(wanted + 1 + EXTRA, n_candidates))
        return _without_copies(self.rows, own, candidates, found, wanted)

    def _points(self, factors: Factors, numbers: Int64[Tensor, " n"]) -> Float64[Tensor, "n D"]:
        inputs = self.rows.inputs.map(lambda tensor: tensor[numbers])
        size = rows_at_once(inputs)
        return map_chunks(lambda chunk: kernel_points(factors, chunk), inputs, size).mean


def max_candidates(n_dimensions: int, device: torch.device) -> int:
    """Return the largest number of rows among which neighbours are looked up in training.

    Args:
        n_dimensions: Dimension of the warped space.
        device: Device of the rows.
    """
    if device.type != "cpu":
        return MAX_CANDIDATES["gpu"]
    return MAX_CANDIDATES["few inputs" if n_dimensions <= TREE_DIMENSIONS else "many inputs"]


def _sizes(size: int, spacings: tuple[tuple[int, float], ...]) -> list[int]:
    """Return the number of rows of a pool for each spacing."""
    others = [round(share * size) for _, share in spacings[1:]]
    return [size - sum(others), *others]


def _without_copies(
    rows: Rows,
    own: Int64[Tensor, " P"],
    candidates: Int64[Tensor, " C"],
    found: Int64[Tensor, "P k"],
    wanted: int,
) -> Pool:
    """Return the first neighbours that are not the row itself, nor copies of its inputs."""
    present = found >= 0
    neighbours = candidates[found.clamp(min=0)]
    inputs = rows.inputs.mean
    present &= (inputs[neighbours] != inputs[own][:, None]).any(-1)
    order = (~present).to(torch.int8).argsort(dim=1, stable=True)[:, :wanted]
    return Pool(own, neighbours.gather(1, order), present.gather(1, order))


def step_of(pool: Pool, number: int, size: int) -> Pool:
    """Return the rows of one step of a pool."""
    return pool.map(lambda tensor: tensor[number * size : (number + 1) * size])
