"""Reports: one page about a fitted model and rows with known targets."""

from sswim.report.report import report_page, write_report
from sswim.report.rows import ReportRows, report_rows, table_report_rows

__all__ = ["ReportRows", "report_page", "report_rows", "table_report_rows", "write_report"]
