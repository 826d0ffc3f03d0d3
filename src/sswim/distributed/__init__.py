"""Several operating-system processes that train one model together."""

from sswim.distributed.processes import ALONE, ProcessError, Processes, join_processes
from sswim.distributed.share import Share

__all__ = ["ALONE", "ProcessError", "Processes", "Share", "join_processes"]
