"""`dradriver validate`: checks objects in files, before a cluster reads them.

Three sets of rules apply:

- The rules of the embedded API server predict whether a cluster would accept the creation of an object.
- The rules of `model.resource.pool` compare all slices of a pool, because the server accepts pools that no
  allocator can use.
- The rules of `dradriver.cel` apply to selectors.

This package only converts the content of files to findings.

- `command`: the command.
- `findings`: one finding.
- `kinds`: misspelled kinds.
- `corrections`: proposed corrections.
- `objects`: rules of the API server.
- `pools`, `members`, `counters`: rules across the slices of a pool.
- `selectors`: selectors that compile but never match.
- `extended`: extended resources.
- `controllers`: claims that a controller allocates.
- `parameters`: canonical form of opaque parameters.
- `cdi`: CDI specs.
"""

from dradriver.cli.validation.command import validate

__all__ = ["validate"]
