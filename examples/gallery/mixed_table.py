"""
A table with categories and missing values
==========================================

A data frame goes in as it is: text, categories, dates and gaps need no preparation. Columns become
inputs, missing cells are filled in from the other columns, and where that leaves doubt the
prediction is wider.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sswim import WarpedGPRegressor, evaluate

n_rows, settings = 700, {"depth": 1, "n_components": 256, "noise": "input-dependent"}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, settings = 120, {"depth": 0, "n_components": 32, "max_iter": 5}
# sphinx_gallery_end_ignore

# %%
# Made-up rents: a number, a text column with eight districts, a date, and a column with gaps.

random = np.random.default_rng(0)
districts = np.array(["Altstadt", "Bahnhof", "Campus", "Dorf", "Echo Park", "Forum", "Gate", "Hof"])
level = dict(zip(districts, 200 * random.normal(size=8), strict=True))


def draw(n):
    """Return a table of flats with their rents."""
    size = random.gamma(6, 12, n)
    district = random.choice(districts, n)
    day = random.integers(0, 730, n)
    year_built = random.integers(1900, 2020, n).astype(float)
    rent = (
        12 * size
        + pd.Series(district).map(level).to_numpy()
        + 60 * np.sin(2 * np.pi * day / 365.25)
        + 4 * np.abs(year_built - 1960)
        + 50 * random.normal(size=n)
    )
    year_built[random.uniform(size=n) < 0.15] = np.nan
    return pd.DataFrame(
        {
            "size": size,
            "district": district,
            "date": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D"),
            "year_built": year_built,
            "rent": rent,
        }
    )


rows, new = draw(n_rows), draw(400)
rows.head()

# %%
# The target may be named; it is a column of the same frame. A single model keeps this example
# short; the default does better and takes longer.

model = WarpedGPRegressor(random_state=0, **settings).fit(rows, "rent")
print("\n".join(model.input_names_))

# %%
# Rows with a gap are predicted with a larger error, and the model knows.

flats, rent = new.drop(columns="rent"), new["rent"].to_numpy()
mean, std = model.predict(flats, return_std=True)
gap = new["year_built"].isna().to_numpy()
for name, part in {"complete rows": ~gap, "rows with a gap": gap}.items():
    error = np.sqrt(np.mean((mean[part] - rent[part]) ** 2))
    covered = evaluate(model, flats[part], rent[part]).coverage
    print(
        f"{name:15}: RMSE {error:5.1f}, mean error bar {std[part].mean():5.1f}, "
        f"coverage of 90 % {covered:.2f}"
    )

# %%
# On the left predictions of new rows, with error bars of one standard deviation; on the right what
# the model says of the date, for one flat in two districts: the season is learnt from the date.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for name, part, colour in (("complete rows", ~gap, "C0"), ("year built missing", gap, "C1")):
    left.errorbar(
        rent[part],
        mean[part],
        std[part],
        fmt=".",
        ms=4,
        lw=0.7,
        alpha=0.7,
        color=colour,
        label=name,
    )
ends = [rent.min(), rent.max()]
left.plot(ends, ends, color="black", lw=0.8, ls="--", label="perfect")
left.set(title="(a) new rows", xlabel="rent", ylabel="predicted rent")
left.legend(frameon=False)
dates = pd.date_range("2024-01-01", "2025-12-31", 100)
for number, district in enumerate((max(level, key=level.get), min(level, key=level.get))):
    flat = pd.DataFrame({"size": 70.0, "district": district, "date": dates, "year_built": 1960.0})
    mean, std = model.predict(flat, return_std=True, include_noise=False)
    right.fill_between(dates, mean - std, mean + std, color=f"C{number + 2}", alpha=0.25, lw=0)
    right.plot(dates, mean, color=f"C{number + 2}", label=district)
right.set(title="(b) 70 square metres, built in 1960", xlabel="date", ylabel="predicted rent")
right.tick_params(axis="x", rotation=30)
right.legend(frameon=False)
plt.show()
