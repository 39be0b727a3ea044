"""Turns the text of an expression into a program of the machine.

- `checker`: finds types and overloads, and reports errors that occur on every device.
- `compile`: folds constants and emits the program.
- `environment`: the names that an expression can use: `device`, types and functions.
- `fast`: translates most selectors into one Python expression.
- `functions`: the overloads of functions, and the notation in which libraries declare them.
- `lexer`: characters to tokens.
- `macros`: expands macros into loops, tests and bindings.
- `parser`: tokens to a syntax tree.
- `reads`: finds the attributes that an expression reads.
- `routines`: recursion without Python's stack.
- `syntax`: the nodes of the syntax tree.
- `types`: CEL types and their unification.
"""
