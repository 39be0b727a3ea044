"""Runs drivers as child processes, and restarts them, for `dradriver up` and `dradriver demo`.

- `supervisor`: keeps processes running.
- `processes`: the command line, environment and log of one process.
- `exits`: why a process ended.
"""

from dradriver.cli.supervision.exits import describe_exit, last_lines
from dradriver.cli.supervision.processes import DriverProcess
from dradriver.cli.supervision.supervisor import ProcessMessage, Supervisor

__all__ = ["DriverProcess", "ProcessMessage", "Supervisor", "describe_exit", "last_lines"]
