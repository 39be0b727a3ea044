"""`dradriver up`: runs the embedded cluster until Ctrl-C.

- `command`: the options.
- `settings`: their values.
- `session`: starts the cluster and the drivers, and waits for the end.
- `summary`: the lines that are printed when the cluster is ready.
- `progress_lines`: lines with a time of day, whose repeats are counted.
- `code_changes`: finds changed source files of drivers, and restarts the drivers (`--reload`).
- `logs`: `dradriver up logs`.
"""

from dradriver.cli.up.command import up

__all__ = ["up"]
