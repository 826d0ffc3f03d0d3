"""ConformityScores rows of a made-up model, for tests of monitoring."""

from __future__ import annotations

import torch

from sswim.conformal import ConformityScores


def draw_scores(
    n: int,
    seed: int = 0,
    *,
    n_targets: int = 1,
    n_folds: int = 3,
    shift: float = 0.0,
    scale: float = 1.0,
    farther: float = 0.0,
    higher: float = 0.0,
    since: int = 0,
) -> ConformityScores:
    """Return rows with standard normal scores, changed from row ``since`` on."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, n_targets, generator=generator, dtype=torch.float64)
    distance = torch.rand(n, generator=generator, dtype=torch.float64)
    scores[since:] = shift + scale * scores[since:]
    distance[since:] += farther
    fold = torch.arange(n) % n_folds
    weight = torch.ones(n, dtype=torch.float64)
    pit = torch.special.ndtr(scores)
    median = torch.randn(n, n_targets, generator=generator, dtype=torch.float64)
    median[since:] += higher
    return ConformityScores(scores, pit, median, distance, fold, torch.zeros_like(fold), weight)
