"""Server-side apply and the ownership of fields.

| module | contents |
|---|---|
| `apply` | merges a manager's configuration, finds conflicts, records owners |
| `differences` | the parts of two versions of an object that differ |
| `field_sets` | the fields of an object as sets of paths (`fieldsV1`) |
| `ownership` | the manager of a request, and the fields that its URL may write (object or `/status`) |
"""
