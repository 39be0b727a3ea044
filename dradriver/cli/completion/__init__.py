"""`dradriver completion`: scripts that let a shell complete commands, options and names.

- `command`: prints the script of a shell, and answers kubectl for the plugin `kubectl dra`.
- `candidates`: names from the cluster.
"""

from dradriver.cli.completion.candidates import completer

__all__ = ["completer"]
