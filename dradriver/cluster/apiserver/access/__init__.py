"""Authentication and authorization.

| module | contents |
|---|---|
| `identity` | users, tokens and TLS certificates |
| `authorization` | the permissions of admins, kubelets and drivers |
"""
