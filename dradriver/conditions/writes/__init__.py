"""Write the results of a binding driver to claims.

Modules:

- `record`: the record of attachments, in the claim's metadata.
- `writer`: conditions and data in `status.devices`.
"""
