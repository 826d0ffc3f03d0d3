"""Files that are complete or absent: output files and sealed files."""
