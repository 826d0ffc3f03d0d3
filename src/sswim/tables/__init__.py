"""Tables in files: Parquet, CSV and Arrow, their schemas and categories."""
