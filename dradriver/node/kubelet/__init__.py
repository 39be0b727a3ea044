"""The kubelet's side of a node: registration, sockets, the gRPC server and its services.

Modules:

- `registration`: the kubelet's plugin registration.
- `sockets`: names of the two sockets, and removal of stale ones.
- `server`: the gRPC server of one Unix socket.
- `dra_service`: the DRAPlugin service: prepare and unprepare.
- `health_service`: device health (KEP-4680).
- `probe_service`: grpc.health.v1 for liveness probes.
- `in_flight`: counts the kubelet's calls, for a stop that fails none.
"""
