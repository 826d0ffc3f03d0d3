"""Exact searches for nearest points."""

from sswim.search.search import (
    TREE_DIMENSIONS,
    Nearest,
    ProductSearch,
    Search,
    SharedSearch,
    TreeSearch,
    largest_product,
    make_search,
    point_factors,
    query_factors,
)

__all__ = [
    "TREE_DIMENSIONS",
    "Nearest",
    "ProductSearch",
    "Search",
    "SharedSearch",
    "TreeSearch",
    "largest_product",
    "make_search",
    "point_factors",
    "query_factors",
]
