"""Finds facts about an expression that hold on every device, so that a caller can evaluate it less often.

- `bounds`: bounds the work of an expression without loops.
- `comparisons`: recognizes an expression that compares one attribute with literals.
- `pieces`: splits the text of an expression at its outermost `&&`.
- `reads`: finds the parts of a device that an expression reads.
- `skeletons`: finds what expressions with different literals have in common.
"""
