"""Maps: predictions on grids, their files, and errors of blocks that are left out.

Grids need the extra ``sswim[maps]``: xarray, rioxarray, h5netcdf and geopandas. ``import sswim``
does not import this room.
"""

from sswim.maps.blocks import BlockEvaluation, BlockKFold, evaluate_blocks, evaluate_table_blocks
from sswim.maps.grid import predict_grid
from sswim.maps.grid_files import require_grid_suffix, write_grid

__all__ = [
    "BlockEvaluation",
    "BlockKFold",
    "evaluate_blocks",
    "evaluate_table_blocks",
    "predict_grid",
    "require_grid_suffix",
    "write_grid",
]
