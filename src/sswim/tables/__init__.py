"""Tables in files and data frames: how they are read, and how their columns become inputs.

``import sswim`` does not import this room, which loads pyarrow.
"""

from sswim.tables.columns import (
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    SphereColumn,
    TimeColumn,
    UnknownCategoryWarning,
    UnreadableValueWarning,
)
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions, is_csv
from sswim.tables.csv_table import CsvTable
from sswim.tables.frames import (
    GEOGRAPHIC_NAMES,
    PLANE_NAMES,
    MixedColumnWarning,
    array_table,
    as_table,
    split_geometry,
)
from sswim.tables.input_columns import input_columns
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.schema import Schema, schema_from_dict, schema_to_dict
from sswim.tables.schema_learning import LearntSchema, learn_schema
from sswim.tables.table import (
    ChunkedTable,
    MemoryTable,
    TableChunk,
    TableError,
    has_table_suffix,
    quote_names,
    require_columns,
    require_new_names,
    rows_per_chunk,
    split_rows,
    table_suffix,
)
from sswim.tables.table_copy import copy_file, plain_table, require_copy
from sswim.tables.table_description import ColumnDescription, TableDescription, describe_table
from sswim.tables.table_io import (
    append_columns,
    open_table,
    read_columns,
    read_small_table,
    read_table,
    require_writable_suffix,
    write_table,
)
from sswim.tables.table_rows import (
    KEEP_ALL,
    LeftOut,
    TableSample,
    TargetedRows,
    complete_rows,
    input_names,
    keep_rows,
    naming_infinite,
    read_rows,
    sample_table,
    target_numbers,
)
from sswim.tables.table_source import FrameSource, TableNote, TableSource, open_source
from sswim.tables.values import as_levels

__all__ = [
    "AS_FOUND",
    "GEOGRAPHIC_NAMES",
    "KEEP_ALL",
    "PLANE_NAMES",
    "CategoryColumn",
    "ChunkedTable",
    "Column",
    "ColumnDescription",
    "CsvOptions",
    "CsvTable",
    "FrameSource",
    "IgnoredColumn",
    "LearntSchema",
    "LeftOut",
    "LevelMeansColumn",
    "MemoryTable",
    "MixedColumnWarning",
    "NumberColumn",
    "ParquetTable",
    "Schema",
    "SphereColumn",
    "TableChunk",
    "TableDescription",
    "TableError",
    "TableNote",
    "TableSample",
    "TableSource",
    "TargetedRows",
    "TimeColumn",
    "UnknownCategoryWarning",
    "UnreadableValueWarning",
    "append_columns",
    "array_table",
    "as_levels",
    "as_table",
    "complete_rows",
    "copy_file",
    "describe_table",
    "has_table_suffix",
    "input_columns",
    "input_names",
    "is_csv",
    "keep_rows",
    "learn_schema",
    "naming_infinite",
    "open_source",
    "open_table",
    "plain_table",
    "quote_names",
    "read_columns",
    "read_rows",
    "read_small_table",
    "read_table",
    "require_columns",
    "require_copy",
    "require_new_names",
    "require_writable_suffix",
    "rows_per_chunk",
    "sample_table",
    "schema_from_dict",
    "schema_to_dict",
    "split_geometry",
    "split_rows",
    "table_suffix",
    "target_numbers",
    "write_table",
]
