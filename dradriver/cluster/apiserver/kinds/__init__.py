"""The served kinds and their descriptions for clients.

| module | contents |
|---|---|
| `resources` | the served kinds, one row each |
| `gates` | feature gates and their defaults |
| `discovery` | discovery documents (`/api`, `/apis`) |
| `openapi` | OpenAPI documents |
"""
