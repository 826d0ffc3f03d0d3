"""Shared by the scripts: command-line options that several of them have."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal, get_args

import torch

DEVICES = ("auto", "cpu", "cuda")

DType = Literal["float64", "float32"]
DTYPES: dict[DType, torch.dtype] = {"float64": torch.float64, "float32": torch.float32}


def script_parser(description: str | None, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the docstring of a script."""
    return argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawTextHelpFormatter
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``."""
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="auto",
        help="device to measure on; auto is the GPU if there is one",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Add ``--dtype``."""
    parser.add_argument(
        "--dtype", choices=get_args(DType), default="float64", help="precision of the features"
    )


def add_out(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--out``, the result file of one device; see ``result_path``."""
    parser.add_argument("--out", default=default, help=f"result file, by default {default}")


def add_results(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--out``, and what to do with the results that are there instead of measuring."""
    parser.add_argument("--out", type=Path, default=Path(default))
    parser.add_argument("--table", action="store_true", help="print the table instead")
    parser.add_argument("--picture", type=Path, help="draw this picture instead")


def result_path(out: str, device: str) -> Path:
    """Return the path of a result file whose name may contain ``<device>``."""
    return Path(out.replace("<device>", device))
