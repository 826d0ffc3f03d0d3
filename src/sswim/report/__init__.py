"""Reports: one page about a fitted model and rows with known targets."""

from sswim.report.report import write_report

__all__ = ["write_report"]
