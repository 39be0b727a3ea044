"""Address, TLS settings and credentials of the API server.

| module | contents |
|---|---|
| `connection` | finds the API server: a kubeconfig or the pod's service account |
| `kubeconfig` | reads, merges and checks kubeconfig files |
| `credentials` | provides tokens and certificates, and reads them again when they expire |
"""
