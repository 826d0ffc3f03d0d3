"""The demonstration behind ``make demo``: what warps add on a nonstationary 1-D signal."""

from __future__ import annotations

import time

import torch

from sswim import Architecture, as_rows, condition, mnlp, rmse, start, train
from sswim.data import nonstationary_signal

NOISE = 0.1


def main() -> None:
    """Fit models without and with warps to the same rows, and print how well they predict."""
    generator = torch.Generator().manual_seed(0)

    def draw(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = 3 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
        noise = torch.randn(n, 1, generator=generator, dtype=torch.float64)
        return (x - 1.5) / 0.75**0.5, nonstationary_signal(x) + NOISE * noise

    rows, test = as_rows(*draw(600)), as_rows(*draw(2000))
    print("A 1-D signal with steps, a slow wave and a chirp: 600 noisy rows, 2000 to test on.")
    print(f"No model can have an RMSE below the noise, {NOISE}.\n")
    print("warps    RMSE    MNLP  seconds")
    for depth in (0, 1, 2):
        began = time.perf_counter()
        model = start(
            Architecture(depth=depth, n_frequencies=128, n_pseudo=32, draw="sobol"),
            rows.inputs.mean,
            n_targets=1,
            generator=torch.Generator().manual_seed(0),
            length_scale=0.2,  # the signal oscillates many times over the rows
        )
        train(model, rows)
        prediction = condition(model, rows).predict(test.inputs)
        seconds = time.perf_counter() - began
        error, density = rmse(prediction, test.targets), mnlp(prediction, test.targets)
        print(f"{depth:5d} {error:7.3f} {density:7.3f} {seconds:8.1f}")


if __name__ == "__main__":
    main()
