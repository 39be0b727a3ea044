"""What commands print in a terminal: results on stdout, errors and progress on stderr.

- `output`: prints tables for people, and JSON or YAML documents for programs.
- `layout`: fits tables and prose into the width of the terminal.
- `errors`: prints an error as one line, and sets the exit code.
- `progress`: shows how far a long operation is.
"""
