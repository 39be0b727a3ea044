"""Output of commands in a terminal.

- `output`: tables for people, and documents for programs.
- `layout`: line breaks of tables and prose.
- `errors`: errors as one line and an exit code.
- `progress`: progress of long work on stderr.
"""
