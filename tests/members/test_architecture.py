from __future__ import annotations

from typing import Any

import pytest
from builders.models import unchecked

from sswim.members import Architecture


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": -1}, "at least"),
        ({"n_frequencies": 0}, "at least"),
        ({"n_pseudo": 0}, "at least"),
        ({"n_output_terms": 0}, "n_output_terms must be an integer of at least 1. Got 0"),
        ({"n_noise_frequencies": 0}, "n_noise_frequencies must be .* of at least 1. Got 0"),
        ({"output_warp": "log"}, r"output_warp must be one of .*'tanh'.* Got 'log'"),
        ({"noise": "none"}, r"noise must be one of .*'input-dependent'.* Got 'none'"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"pseudo_prior": "flat"}, r"pseudo_prior must be one of .*'whitened'.* Got 'flat'"),
        ({"inputs": "ranked"}, r"inputs must be one of .*'normal-scores'.* Got 'ranked'"),
        ({"n_warp_frequencies": 0}, "n_warp_frequencies must be an integer of at least 1. Got 0"),
        ({"warp_dim": 0}, "warp_dim must be an integer of at least 1. Got 0"),
        ({"warp_dim": 10**9}, "warp_dim must be at most 10000. Got 1000000000"),
        ({"warp_dim": 2}, "diagonal matrix keeps the dimension .* Got .* with warp_dim=2"),
        ({"warp_matrix": "dense"}, r"warp_matrix must be one of .*'projected'.* Got 'dense'"),
        ({"warp_matrix": "full", "depth": 0}, "without warps has none. Got warp_matrix='full'"),
        ({"depth": 10**9 * 10}, "depth must be at most"),
        ({"depth": 1.5}, "depth must be an integer"),
        ({"depth": True}, "depth must be an integer"),
        ({"n_neighbors": -1}, "n_neighbors must be an integer of at least 0"),
        ({"local_amplitude": 1}, "local_amplitude must be True or False"),
    ],
)
def test_impossible_architectures_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(Architecture, **change)
