"""Serves HTTP and HTTPS for the webhook, the extender and the dashboard.

Rule of this package: it only listens and answers requests about the process. It knows no object of Kubernetes.
Importing its modules, but `hosts`, loads aiohttp, so a command imports them only when the command serves.

Modules:

- `listener`: listens on an address, and reports an address that cannot be used.
- `certificate`: loads the certificate of a server, and loads it again when its files change.
- `answers`: the answers to probes and to Prometheus.
- `hosts`: which hosts only processes of the same machine can reach.
"""
