"""Server-side apply and the ownership of fields.

| module | contents |
|---|---|
| `apply` | merges a manager's configuration, finds conflicts, records owners |
| `field_sets` | the fields of an object as sets of paths (`fieldsV1`) |
| `ownership` | the manager of a request, and the fields that its path may write |
"""
