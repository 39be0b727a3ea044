"""A gRPC server for the kubelet: unary calls and server streams over HTTP/2 on a Unix socket.

Law of this package: it knows HTTP/2 and gRPC, and nothing of claims, drivers or the kubelet. All but `server`
is pure: bytes in, events and bytes out.

grpcio's asyncio server costs a driver's process 12 MiB and four threads, and a call three times the CPU time
(`benchmarks/README.md` has the figures): its core works in threads of its own, and each step of a call crosses
from them to the event loop. What a kubelet needs is small. HPACK, the hard part, is the `hpack` library's.

| room         | what                                                                               |
|--------------|------------------------------------------------------------------------------------|
| `errors`     | what a peer or a handler can do wrong, and the codes for it                        |
| `frames`     | bytes to frames and back (RFC 9113, section 4)                                     |
| `settings`   | what each side takes (section 6.5)                                                 |
| `blocks`     | header fields as they come (section 4.3)                                           |
| `fields`     | what the fields of requests say, and those of answers (section 8; gRPC over HTTP/2) |
| `outgoing`   | what goes out, as the peer's windows let it (sections 5.2 and 6.9)                 |
| `calls`      | what has come of a call (gRPC over HTTP/2)                                         |
| `connection` | one connection: frames to requests, answers to frames (sections 3, 5 and 6)        |
| `methods`    | which methods a servicer serves                                                    |
| `server`     | the socket, and a task for each call                                               |
"""

from dradriver.rpc.errors import Code, RpcError
from dradriver.rpc.methods import Method, methods_of
from dradriver.rpc.server import Server

__all__ = ["Code", "Method", "RpcError", "Server", "methods_of"]
