"""Compiles the text of an expression to a program of the machine.

- `checker`: finds types and overloads, and reports errors that occur on every device.
- `compile`: folds constants and emits the program.
- `environment`: defines the names that an expression can use: `device`, types and functions.
- `fast`: translates most selectors into one Python expression.
- `functions`: defines overloads of functions, and the notation in which libraries declare them.
- `lexer`: splits the text into tokens.
- `macros`: expands macros into loops, tests and bindings.
- `parser`: builds the syntax tree from the tokens.
- `routines`: runs recursive functions without using Python's stack.
- `syntax`: defines the nodes of the syntax tree.
- `templates`: compiles expressions; those that differ only in literals share their compiled form.
- `types`: defines CEL types and unifies them.

Room:

- `analysis`: finds facts about an expression that hold on every device.
"""
