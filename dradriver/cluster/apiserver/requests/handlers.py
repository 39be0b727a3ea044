"""Processes one HTTP request step by step: authenticate, parse, authorize, execute, answer."""

import asyncio
import contextlib
import logging
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from aiohttp import http_exceptions, web

from dradriver.cluster.apiserver.access.authorization import admit_pod, authorize
from dradriver.cluster.apiserver.access.identity import Identity, Tokens
from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.faults import Fault, Faults
from dradriver.cluster.apiserver.formats.values import Object, dig, encode
from dradriver.cluster.apiserver.kinds import discovery, openapi
from dradriver.cluster.apiserver.kinds.resources import NODES, PODS
from dradriver.cluster.apiserver.requests import reads, writes
from dradriver.cluster.apiserver.requests.binding import bind
from dradriver.cluster.apiserver.requests.decoding import convert_to_json, is_yaml, read_options
from dradriver.cluster.apiserver.requests.deletion import DeleteResult, delete, parse_delete_options
from dradriver.cluster.apiserver.requests.parse import ApiRequest, parse_target
from dradriver.cluster.apiserver.requests.reviews import REVIEWS, answer_review
from dradriver.cluster.apiserver.status import (
    StatusError,
    Subject,
    bad_request,
    internal,
    invalid,
    method_not_allowed,
    no_such_path,
    not_found,
    success,
    too_large,
    unauthorized,
)
from dradriver.cluster.apiserver.storage import watching
from dradriver.cluster.apiserver.validation.field import invalid as field_error
from dradriver.errors import DraError

PodLogs = Callable[[str, str, str, bool, int | None], Awaitable[AsyncIterator[bytes]]]
"""Reads a container's log: namespace, pod, container, follow, tail lines."""

_LOG = logging.getLogger(__name__)
_STREAMS = {"exec": "exec", "attach": "attach", "portforward": "port-forward"}
"""Names of the streams into a container, by subresource of pods."""
_UNSUPPORTED_LOG_OPTIONS = {
    "timestamps": "lines have no timestamps",
    "sinceTime": "lines have no timestamps",
    "sinceSeconds": "lines have no timestamps",
    "previous": "only the log of the latest run can be read",
}
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 1 << 32  # seconds
_UNAUTHENTICATED_PATHS = frozenset({"/healthz", "/livez", "/readyz"})


@dataclass
class Handler:
    """Answers requests. `get_pod_logs` returns the log reader, or None before a log reader is set."""

    server: ServerParts
    tokens: Tokens
    faults: Faults
    bookmark_seconds: float
    get_pod_logs: Callable[[], PodLogs | None]

    async def __call__(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. A rejection or an internal error is answered with a Status."""
        try:
            return await self._answer(http)
        except ConnectionError:
            raise
        except Exception as error:
            return error_response(_to_status(http, error))

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        path = http.path
        if path in _UNAUTHENTICATED_PATHS or path.startswith(("/livez/", "/readyz/")):
            return web.Response(text="ok")
        user = self._authenticate(http)
        depth = path.strip("/").count("/")
        if (path.startswith("/api/v1/") and depth > 1) or (path.startswith("/apis/") and depth > 2):
            return await self._serve_resource(http, user)
        return self._serve_document(http, path.rstrip("/"))

    def _authenticate(self, http: web.BaseRequest) -> Identity:
        scheme, _, token = _read_header(http, "Authorization").partition(" ")
        user = self.tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def _serve_document(self, http: web.BaseRequest, path: str) -> web.StreamResponse:
        if http.method not in {"GET", "HEAD"}:
            raise method_not_allowed()
        registry, accept = self.server.registry, _read_header(http, "Accept")
        if path in {"/api", "/apis"} and discovery.wants_aggregated(accept):
            document = discovery.build_aggregated(registry, core=path == "/api")
            return _respond(encode(document), content_type=discovery.AGGREGATED)
        if path == "/openapi/v2" and "com.github.proto-openapi" in accept:
            kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            return web.Response(body=openapi.V2_PROTOBUF, headers={"Content-Type": kind})
        found = _find_document(self.server, path)
        if found is None:
            raise no_such_path()
        return _respond(encode(found))

    async def _serve_resource(self, http: web.BaseRequest, user: Identity) -> web.StreamResponse:
        _refuse_streams(http.path)
        query = {key: http.query[key] for key in http.query}
        body, content_type = await _read_body(http), _read_header(http, "Content-Type")
        if is_yaml(content_type) and body:
            body = await convert_to_json(body)
        if http.path in REVIEWS and http.method == "POST":
            return _respond(encode(answer_review(http.path, user, body, content_type)), 201)
        watch = query.get("watch", "").lower() in {"1", "true"}
        target = parse_target(http.method, http.path, watch, self.server.registry)
        request = ApiRequest(
            target,
            query,
            user,
            body,
            content_type,
            _read_header(http, "Accept"),
            _read_header(http, "User-Agent"),
        )
        self._authorize(request)
        fault = self.faults.take(target.verb, target.resource_path)
        if fault is None:
            return await self._dispatch(http, request)
        return await self._apply_fault(http, request, fault)

    def _authorize(self, request: ApiRequest) -> None:
        target = request.target
        if request.user.is_admin:
            return
        existing = (
            self.server.store.get(target.resource.storage, target.namespace, target.name)
            if target.name
            else None
        )
        authorize(
            request.user, target, reads.parse_field_selector(request), existing.object if existing else None
        )

    async def _apply_fault(
        self, http: web.BaseRequest, request: ApiRequest, fault: Fault
    ) -> web.StreamResponse:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.until:
            await fault.until.wait()
        if fault.applied:
            with contextlib.suppress(StatusError):
                await self._dispatch(http, request)
        if fault.drop:
            _cut_connection(http)
        if fault.code == 410 and request.target.verb == "watch":
            return await self._stream_watch(http, request, cut_after=0)
        if fault.code:
            raise fault.error()
        return await self._dispatch(http, request, cut_after=fault.after)

    async def _dispatch(
        self, http: web.BaseRequest, request: ApiRequest, *, cut_after: int = -1
    ) -> web.StreamResponse:
        verb, subresource = request.target.verb, request.target.subresource
        if verb == "watch":
            return await self._stream_watch(http, request, cut_after=cut_after)
        if subresource == "log":
            return await self._stream_log(http, request)
        answers: dict[str, Callable[[ApiRequest], web.Response]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }
        return answers[verb](request)

    def _get(self, request: ApiRequest) -> web.Response:
        writer = reads.make_encoder(self.server, request)
        return _respond(writer.encode_object(self.server.existing(request)))

    def _list(self, request: ApiRequest) -> web.Response:
        writer = reads.make_encoder(self.server, request)
        page = reads.read_page(self.server, request)
        return _respond(writer.encode_list(page.items, page.metadata))

    def _create(self, request: ApiRequest) -> web.Response:
        if request.target.subresource == "binding":
            bind(self.server, request)
            return _respond(
                encode(
                    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
                ),
                201,
            )
        if request.target.subresource == "token":
            return self._create_token(request)
        return self._write_response(request, writes.create(self.server, request))

    def _create_token(self, request: ApiRequest) -> web.Response:
        target = request.target
        self.server.existing(request)
        body = read_options(request.body, request.content_type, "authentication.TokenRequest")
        seconds = dig(body, "spec", "expirationSeconds") or 3600
        if not _MIN_TOKEN_SECONDS <= seconds <= _MAX_TOKEN_SECONDS:
            short = seconds < _MIN_TOKEN_SECONDS
            rule = (
                f"may not specify a duration {'less than 10 minutes' if short else 'larger than 2^32 seconds'}"
            )
            detail = field_error("spec.expirationSeconds", seconds, rule)
            raise invalid(Subject("authentication.k8s.io", "TokenRequest"), [detail])
        node = self._find_bound_node(target.namespace, dig(body, "spec", "boundObjectRef") or {})
        token = self.tokens.token(f"sa:{target.namespace}:{target.name}{node and ':' + node}")
        expiry = self.server.now() + timedelta(seconds=seconds)
        status = {"token": token, "expirationTimestamp": expiry.strftime("%Y-%m-%dT%H:%M:%SZ")}
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": body.get("spec", {}),
        }
        return _respond(encode({**answer, "status": status}), 201)

    def _find_bound_node(self, namespace: str, reference: Object) -> str:
        """Return the node to which a token is bound, directly or through a pod; "" for none."""
        name = reference.get("name", "")
        if reference.get("kind") == "Node":
            if self.server.store.get(NODES, "", name) is None:
                raise not_found(Subject("", "nodes", name))
            return str(name)
        pod = self.server.store.get(PODS, namespace, name) if reference.get("kind") == "Pod" else None
        return str(dig(pod.object, "spec", "nodeName") or "") if pod is not None else ""

    def _update(self, request: ApiRequest) -> web.Response:
        return self._write_response(request, writes.replace(self.server, request))

    def _patch(self, request: ApiRequest) -> web.Response:
        return self._write_response(request, writes.patch(self.server, request))

    def _write_response(self, request: ApiRequest, answer: writes.WriteResult) -> web.Response:
        response = _respond(reads.make_encoder(self.server, request).encode_object(answer.stored), answer.code)
        for warning in answer.warnings:
            # As in Go, a warning is left out if a header can't contain it.
            if not any(unicodedata.category(character) in {"Cc", "Cs"} for character in warning):
                quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
                response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    def _delete(self, request: ApiRequest) -> web.Response:
        resource, options = request.target.resource, parse_delete_options(request)
        stored = self.server.existing(request)
        admit_pod(request.user, request.target, stored.object, None)
        done = delete(self.server, resource, stored, options)
        if done.gone and not resource.returns_deleted:
            subject = Subject(
                resource.group, resource.plural, request.target.name, stored.object["metadata"]["uid"]
            )
            return _respond(encode(success(subject)))
        return _respond(reads.make_encoder(self.server, request).encode_object(done.stored))

    def _delete_collection(self, request: ApiRequest) -> web.Response:
        options = parse_delete_options(request)
        page = reads.read_page(self.server, request)
        done: list[DeleteResult] = []
        for each in page.items:
            current = self.server.store.get(each.storage, *each.key)
            if current is not None:
                done.append(delete(self.server, request.target.resource, current, options))
        writer = reads.make_encoder(self.server, request)
        return _respond(writer.encode_list([each.stored for each in done], page.metadata))

    async def _stream_watch(
        self, http: web.BaseRequest, request: ApiRequest, *, cut_after: int
    ) -> web.StreamResponse:
        watch, writer = watching.parse_watch(request), reads.make_encoder(self.server, request)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        with contextlib.suppress(ConnectionError):  # the client may leave at any time
            await response.prepare(http)
            if cut_after == 0:
                await response.write(watching.encode_gone())
                return response
            stream = watching.stream_lines(self.server, request, watch, writer, self.bookmark_seconds)
            async with contextlib.aclosing(stream):
                async for lines in stream:
                    if 0 < cut_after <= len(lines):
                        await response.write(b"".join(lines[:cut_after]))
                        _cut_connection(http)
                    await response.write(b"".join(lines))
                    cut_after -= len(lines)
        return response

    async def _stream_log(self, http: web.BaseRequest, request: ApiRequest) -> web.StreamResponse:
        pod = self.server.existing(request).object
        query = request.query
        for option, reason in _UNSUPPORTED_LOG_OPTIONS.items():
            if query.get(option, "false") != "false":
                raise bad_request(f"log option {option}: not supported by the embedded cluster: {reason}")
        container = query.get("container") or pod["spec"]["containers"][0]["name"]
        pod_logs = self.get_pod_logs()
        if pod_logs is None:
            raise bad_request(f"pod {request.target.name}: no kubelet serves its logs")
        tail = request.read_number("tailLines") if query.get("tailLines") else None
        if tail is not None and tail < 0:
            detail = field_error("tailLines", tail, "must be greater than or equal to 0")
            raise invalid(Subject("", "PodLogOptions"), [detail])
        target, follow = request.target, request.read_flag("follow")
        try:
            chunks = await pod_logs(target.namespace, target.name, container, follow, tail)
        except DraError as error:
            raise bad_request(str(error)) from error
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        with contextlib.suppress(ConnectionError):
            await response.prepare(http)
            async for chunk in chunks:
                await response.write(chunk)
        return response


async def _read_body(http: web.BaseRequest) -> bytes:
    try:
        return await http.read() if http.can_read_body else b""
    except (web.RequestPayloadError, http_exceptions.HttpProcessingError) as error:
        raise bad_request(f"the body of the request can't be read: {type(error).__name__}") from error


def _read_header(http: web.BaseRequest, name: str) -> str:
    """Return a header as text.

    Bytes that are not UTF-8 are replaced, so that the text can be sent and stored.
    """
    return http.headers.get(name, "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _refuse_streams(path: str) -> None:
    parts = path.strip("/").split("/")
    if len(parts) == 7 and parts[4] == "pods" and parts[6] in _STREAMS:
        message = f"the embedded cluster does not support {_STREAMS[parts[6]]}; kubectl logs works"
        raise StatusError(405, "MethodNotAllowed", message, Subject("", "pods", parts[5]))


def _to_status(http: web.BaseRequest, error: Exception) -> StatusError:
    if isinstance(error, StatusError):
        return error
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return too_large()
    _LOG.error("%s %s failed", http.method, http.path, exc_info=error)
    return internal(f"{type(error).__name__}: {error}")


def _respond(body: bytes, status: int = 200, *, content_type: str = "application/json") -> web.Response:
    # The content type is set as a header, because aiohttp's own argument rejects parameters.
    return web.Response(body=body, status=status, headers={"Content-Type": content_type})


def error_response(error: StatusError) -> web.Response:
    """Return the HTTP answer for a rejected request."""
    response = _respond(encode(error.body()), error.code)
    if error.retry_after:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _cut_connection(http: web.BaseRequest) -> None:
    if http.transport is not None:
        http.transport.abort()
    raise ConnectionResetError("cut by a fault rule")


def _find_document(server: ServerParts, path: str) -> Object | None:
    registry = server.registry
    fixed: dict[str, Callable[[], Object]] = {
        "/api": discovery.build_api_versions,
        "/apis": lambda: discovery.build_group_list(registry),
        "/version": lambda: discovery.VERSION,
        "/openapi/v2": lambda: openapi.V2,
        "/openapi/v3": lambda: openapi.build_v3_index(registry),
    }
    if path in fixed:
        return fixed[path]()
    parts = path.strip("/").split("/")
    if path.startswith("/openapi/v3/"):
        return openapi.build_v3(registry, path.removeprefix("/openapi/v3/"))
    if parts[0] == "api" and len(parts) == 2:
        return discovery.build_resource_list(registry, "", parts[1])
    if parts[0] == "apis" and len(parts) == 2:
        return discovery.build_group(registry, parts[1])
    if parts[0] == "apis" and len(parts) == 3:
        return discovery.build_resource_list(registry, parts[1], parts[2])
    return None
