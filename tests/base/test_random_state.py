from __future__ import annotations

import numpy as np
import torch

from sswim.base.validation import draw_generator


def test_an_integer_seeds_the_same_generator() -> None:
    first, again, other = (draw_generator(seed).initial_seed() for seed in (1, 1, 2))
    assert first == again != other


def test_a_numpy_generator_gives_another_generator_each_time() -> None:
    random, again = np.random.RandomState(1), np.random.RandomState(1)
    seeds = [draw_generator(random).initial_seed() for _ in range(3)]
    assert len(set(seeds)) == 3
    assert [draw_generator(again).initial_seed() for _ in range(3)] == seeds
    assert seeds[0] == draw_generator(1).initial_seed()


def test_generators_are_on_the_cpu() -> None:
    assert draw_generator(0).device == torch.device("cpu")
