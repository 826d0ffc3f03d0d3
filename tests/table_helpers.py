"""Tables that more than one test reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def houses() -> pa.Table:
    return pa.table(
        {
            "price": [1.5, 2.5, 3.5, 4.5],
            "rooms": [1, 2, 3, 4],
            "town": ["York", "Bath", "York", "Ely, the city"],
            "sold": pa.array([18262, 18263, 18262, 18262], pa.date32()),
            "new": [True, False, True, False],
        }
    )


def dictionary(values: list[str | None], dtype: Any) -> pa.Array:
    return pa.array(values).cast(pa.dictionary(pa.int32(), dtype))


def views(values: list[str], indices: list[int]) -> pa.Array:
    """What Polars writes for a Categorical."""
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.uint32()), pa.array(values, pa.string_view())
    )
