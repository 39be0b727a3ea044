"""The HTTP server of the page. It has no state: a page reconnects to the next process by itself."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Final, Protocol

from aiohttp import web

from dradriver.errors import DraError, NotFoundError
from dradriver.http_server.answers import answer_probe
from dradriver.http_server.hosts import is_loopback
from dradriver.http_server.listener import Listener
from dradriver.model.encoding.codec import encode
from dradriver.monitor.dashboard.page_values import card_details
from dradriver.monitor.dashboard.request_rules import HEADERS, METHODS, find_token, is_own_host
from dradriver.monitor.dashboard.streams import Pace, stream_events
from dradriver.monitor.dashboard.visibility import Visibility, show_text
from dradriver.monitor.dashboard.visitors import NotAllowedError, NotAuthenticatedError, Visitors
from dradriver.monitor.live import LiveOverview
from dradriver.overview.drawing.palette import card_style

__all__ = ["MAX_STREAMS", "Dashboard", "Explain"]

MAX_STREAMS: Final = 100
"""Pages that follow the cluster at the same time."""
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_PACE: Final = Pace()
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Explain(Protocol):
    """Explains why a pod or a claim waits."""

    async def __call__(self, kind: str, ref: str) -> Sequence[str]:
        """Return the explanation as lines.

        Args:
            kind: `Pod` or `ResourceClaim`.
            ref: `namespace/name` of the object.

        Raises:
            DraError: the object does not exist, or the cluster cannot be read.
        """


class Dashboard:
    """Serves the page and its data.

    Args:
        live: the overview that is shown.
        visitors: decides what a visitor may see.
        explain: explains why an object waits.
        host: the address to listen on. Empty: all addresses. If it is a loopback address, requests must name
            the loopback interface in their header `Host`.
        port: the port. 0: any free port.
        context: the TLS context. None: plain HTTP.
        max_streams: pages that follow the cluster at the same time.
        pace: the times of a page that follows the cluster.
    """

    def __init__(
        self,
        live: LiveOverview,
        visitors: Visitors,
        explain: Explain,
        *,
        host: str,
        port: int = 0,
        context: ssl.SSLContext | None = None,
        max_streams: int = MAX_STREAMS,
        pace: Pace = _PACE,
    ) -> None:
        self._live, self._visitors, self._explain = live, visitors, explain
        self._checks_host = is_loopback(host)
        self._max_streams, self._streams, self._pace = max_streams, 0, pace
        self._files = _read_files()
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(_add_headers)
        app.router.add_get("/api/events", self._events, allow_head=False)
        app.router.add_get("/api/node", self._node)
        app.router.add_get("/api/pool", self._pool)
        app.router.add_get("/api/explain", self._explanation)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/{name:[a-z_]*(?:[.][a-z]+)?}", self._file)
        self._listener = Listener(app, host=host, port=port, context=context, cancels=True)

    @property
    def port(self) -> int:
        """Return the port after `start()`."""
        return self._listener.port

    async def start(self) -> None:
        """Listen.

        Raises:
            UsageError: the address cannot be used.
        """
        await self._listener.start()

    async def stop(self) -> None:
        """Disconnect all pages and close the socket."""
        await self._listener.stop()

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.method not in METHODS:
            return _refuse(405, "only GET is answered", {"Allow": "GET, HEAD"})
        if self._checks_host and not is_own_host(request.headers.get("Host", "")):
            return _refuse(421, "the header Host must be localhost or a loopback address")
        try:
            return await handler(request)
        except NotAuthenticatedError as error:
            return _refuse(401, str(error), {"WWW-Authenticate": "Bearer"})
        except NotAllowedError as error:
            return _refuse(403, str(error))
        except NotFoundError as error:
            return _refuse(404, str(error))
        except DraError as error:
            return _refuse(503, str(error))

    async def _check(self, request: web.Request) -> Visibility:
        token = find_token(request.headers.get("Authorization", ""))
        refs = (*self._live.claims.items, *self._live.pods.items)
        return await self._visitors.check(token, {str(ref).partition("/")[0] for ref in refs})

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"] or "index.html"
        if name not in self._files:
            raise NotFoundError(f"there is no file {name}")
        kind, body = self._files[name]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        await self._check(request)
        if self._streams >= self._max_streams:
            text = f"{self._max_streams} pages follow the cluster, which is the limit"
            return _refuse(503, text, {"Retry-After": "10"})
        response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
        response.content_type, response.charset = "text/event-stream", "utf-8"
        self._streams += 1
        try:
            await response.prepare(request)
            await stream_events(self._live, lambda: self._check(request), response.write, self._pace)
        except (TimeoutError, ConnectionError, DraError):
            # The page connects again, and gets the reason as the answer.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._streams -= 1
        return response

    async def _node(self, request: web.Request) -> web.Response:
        visible, name = await self._check(request), request.query.get("name", "")
        node = self._live.tracker.overview.nodes.get(name)
        if node is None:
            raise NotFoundError(f"there is no node {name} with devices")
        return _json(card_details(node.cards, visible))

    async def _pool(self, request: web.Request) -> web.Response:
        visible = await self._check(request)
        driver, pool = request.query.get("driver", ""), request.query.get("pool", "")
        for reach in self._live.tracker.overview.reaches:
            if (reach.driver, reach.pool) == (driver, pool):
                return _json(card_details(reach.cards, visible, reach.device_nodes))
        raise NotFoundError(f"there is no pool {driver}/{pool} that several nodes reach")

    async def _explanation(self, request: web.Request) -> web.Response:
        visible = await self._check(request)
        kind, ref = request.query.get("kind", ""), request.query.get("ref", "")
        if kind not in {"Pod", "ResourceClaim"} or not all(ref.partition("/")):
            return _refuse(400, "kind: must be Pod or ResourceClaim; ref: must be NAMESPACE/NAME")
        if not visible.shows(kind, ref):
            # Whether the object exists is hidden too.
            raise NotFoundError(f"there is no {kind} {ref} that you may list")
        lines = await self._explain(kind, ref)
        return _json({"lines": [show_text(line, visible, ref) for line in lines]})

    async def _livez(self, _request: web.Request) -> web.Response:
        return answer_probe("")

    async def _readyz(self, _request: web.Request) -> web.Response:
        # The reason can name objects of the cluster, and probes have no token. Pages show it to visitors.
        return answer_probe("the overview is not current" if self._live.problem is not None else "")


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _read_files() -> Mapping[str, tuple[str, bytes]]:
    """Return the content type and the content of the page's files, by name."""
    found = {"palette.css": ("text/css", card_style().encode())}
    for each in files(__package__).joinpath("page").iterdir():
        suffix = "." + each.name.rpartition(".")[2]
        if suffix in _TYPES:
            found[each.name] = (_TYPES[suffix], each.read_bytes())
    return found


def _json(value: object) -> web.Response:
    return web.Response(body=encode(value), content_type="application/json")


def _refuse(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = encode({"error": text})
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
