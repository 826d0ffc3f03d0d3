"""Several operating-system processes that train one model together."""

from sswim.distributed.processes import ALONE, ProcessError, Processes, Share, join_processes

__all__ = ["ALONE", "ProcessError", "Processes", "Share", "join_processes"]
