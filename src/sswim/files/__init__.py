"""Files that are complete or absent: output files, sealed files, and the records in them.

Names are imported from the modules: commands check their outputs before PyTorch is loaded.
"""
