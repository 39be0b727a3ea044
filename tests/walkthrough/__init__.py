"""Pages of commands, read from top to bottom as a user reads them.

A page shows commands in fenced blocks with the language `console`. A command starts with `$ `, and the
lines below it are its output. A line `...` is any number of lines. A fenced block below the comment
`<!-- PATH -->` is the content of the file PATH.

Modules:

- `pages`: finds the commands and the files of a page.
- `output`: compares what a command printed with what the page shows.
- `reader`: executes the commands of a page in one folder.
- `offline`: replaces the commands that need a package index, for `make test`.
"""
