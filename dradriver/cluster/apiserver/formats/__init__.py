"""Values and text formats as Go reads and writes them.

| module | contents |
|---|---|
| `values` | names for decoded JSON, copies, paths |
| `gojson` | JSON as Go's encoder writes it |
| `quantity` | quantities (`1Gi`, `500m`) |
| `yamljson` | YAML to JSON within limits |
"""
