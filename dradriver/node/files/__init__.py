"""The files of claims: written atomically, and protected from other processes that write to the folders.

Modules:

- `atomic`: reads, writes and removes files without following links.
- `cdi`: CDI specs, one file for each claim.
- `metadata`: device metadata (KEP-5304), one file for each request.
- `claim_files`: all files of a claim, written and removed together.
"""
