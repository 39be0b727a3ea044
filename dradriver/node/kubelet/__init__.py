"""The interface to the kubelet: registration, sockets, the gRPC server and its services.

Modules:

- `registration`: answers the kubelet's plugin registration.
- `sockets`: names the two sockets, and removes stale sockets.
- `server`: the gRPC server of one Unix socket.
- `dra_service`: the DRAPlugin service, which prepares and unprepares claims.
- `health_service`: reports device health (KEP-4680).
- `probe_service`: the grpc.health.v1 service, for liveness probes.
- `in_flight`: counts the kubelet's calls in flight, so that a stopping instance fails no call.
"""
