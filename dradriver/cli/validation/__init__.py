"""`dradriver validate`: objects checked offline, before a cluster sees them.

Three sources of truth, each used where it lives: the embedded API server's rules (what a create would be
answered), `model.pool` (rules across the slices of a pool, for the server accepts what no allocator can use),
and `dradriver.cel` (selectors). Here is only the way from files to findings.
"""

from dradriver.cli.validation.command import validate

__all__ = ["validate"]
