"""What the fields of each served kind are called, and how they behave.

`kubernetes.json` holds the field names, types, merge keys and list types of the kinds that the server knows, generated
by `generate.py` from the Go types of a Kubernetes release; `types` reads it, `decode` turns a request's JSON into an
object of such a type as Go's decoder would. No kind is named in the code here.
"""
