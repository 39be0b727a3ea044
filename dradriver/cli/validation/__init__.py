"""`dradriver validate`: checks objects offline, before a cluster reads them.

Three sets of rules apply: those of the embedded API server, which give the result of a create; `model.pool`,
the rules across the slices of a pool, because the server accepts pools that no allocator can use; and
`dradriver.cel` for selectors. This package only turns files into findings.

- `command`: the command.
- `findings`: one finding.
- `hints`: proposed corrections.
- `objects`: rules of the API server.
- `pools`, `members`, `counters`: rules across the slices of a pool.
- `selectors`: selectors that never match.
- `extended`: extended resources.
- `parameters`: canonical form of opaque parameters.
- `cdi`: CDI specs.
"""

from dradriver.cli.validation.command import validate

__all__ = ["validate"]
