"""Serve the extender over HTTP.

The server has no state. If the process dies during `filter`, `prioritize` or `preempt`, kube-scheduler tries
the pod again. If it dies during `bind`, the next process continues from what the API server stores.
"""

import logging
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from aiohttp import web

from dradriver.errors import DraError, InvalidObjectError
from dradriver.extender.protocol import (
    BindArgs,
    BindResult,
    FilterArgs,
    FilterResult,
    PodState,
    PreemptionArgs,
    PreemptionResult,
    Verbs,
)
from dradriver.extender.serving.metrics import ExtenderMetrics
from dradriver.extender.serving.profiling import add_profiling
from dradriver.extender.serving.verb_calls import VerbCalls
from dradriver.http_server.answers import answer_metrics, answer_probe
from dradriver.http_server.listener import Listener
from dradriver.model.encoding.codec import decode, encode

__all__ = ["LARGEST_BODY", "ExtenderServer", "ServedProcess"]

LARGEST_BODY: Final = 4 * 1024 * 1024
"""Maximum size of a request in bytes: a pod of at most 3 MiB, the names of the nodes, and the rest."""

_ADVICE: Final = "Set `nodeCacheCapable: true` in the extender's entry of the KubeSchedulerConfiguration"
"""How kube-scheduler sends names of nodes instead of whole nodes."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ExtenderRequestError(DraError):
    """A request cannot be read."""


class ServedProcess(Protocol):
    """The source of the answers."""

    @property
    def calls(self) -> VerbCalls:
        """Return what runs the verbs."""

    @property
    def metrics(self) -> ExtenderMetrics:
        """Return the metrics."""

    @property
    def readiness(self) -> str:
        """Return why the process does not schedule; empty if it does."""

    @property
    def standby_readiness(self) -> str:
        """Return why the process neither schedules nor waits for its term; empty if it does one of both."""

    async def liveness(self) -> str:
        """Return why the process should be restarted; empty if it need not be restarted."""


async def _filter(body: bytes, verbs: Verbs) -> object:
    args = _decode(FilterArgs, body)
    return await verbs.filter(args.pod, _given(args.node_names))


async def _prioritize(body: bytes, verbs: Verbs) -> object:
    args = _decode(FilterArgs, body)
    return await verbs.prioritize(args.pod, _given(args.node_names))


async def _preempt(body: bytes, verbs: Verbs) -> object:
    args = _decode(PreemptionArgs, body)
    victims = await verbs.preempt(args.pod, _given(args.node_name_to_meta_victims))
    return PreemptionResult(node_name_to_meta_victims=dict(victims))


async def _bind(body: bytes, verbs: Verbs) -> object:
    await verbs.bind(_decode(BindArgs, body))
    return BindResult()


@dataclass(frozen=True, slots=True)
class _Verb:
    """One verb.

    Attributes:
        call: calls the verb with a request's body and returns the answer.
        error: builds the answer with an error's message. None: the answer has no field for it, so the status is
            500. kube-scheduler then ignores the scores (`prioritize`) or fails the attempt (`preempt`), and
            shows the message nowhere.
        lists_nodes: whether the request lists nodes.
    """

    call: Callable[[bytes, Verbs], Coroutine[Any, Any, object]]
    error: Callable[[str], object] | None = None
    lists_nodes: bool = True


_VERBS: Final[Mapping[str, _Verb]] = {
    "filter": _Verb(_filter, lambda text: FilterResult(error=text)),
    "prioritize": _Verb(_prioritize),
    "preempt": _Verb(_preempt),
    "bind": _Verb(_bind, lambda text: BindResult(error=text), lists_nodes=False),
}


class ExtenderServer:
    """Answers a kube-scheduler.

    Args:
        process: the source of the answers.
        host: the address to listen on. Empty: all addresses.
        port: the port. 0: any free port.
        context: the TLS context. None: plain HTTP.
        health_host: the address of a second port without verbs, for probes and Prometheus. Empty: all
            addresses.
        health_port: the second port, with plain HTTP. None: there is no second port.
        profiling: whether `/debug/tasks` and `/debug/profile` are served at the first port.
    """

    def __init__(
        self,
        process: ServedProcess,
        *,
        host: str,
        port: int = 0,
        context: ssl.SSLContext | None = None,
        health_host: str = "",
        health_port: int | None = None,
        profiling: bool = False,
    ) -> None:
        self._process = process
        app = web.Application(client_max_size=LARGEST_BODY)
        for verb in _VERBS:
            app.router.add_post(f"/{verb}", partial(self._answer, verb))
        app.router.add_get("/explain", self._explain)
        self._add_health(app)
        if profiling:
            add_profiling(app)
        # A bind whose client has gone must not write the binding of its pod.
        self._listener = Listener(app, host=host, port=port, context=context, cancels=True)
        self._health: Listener | None = None
        if health_port is not None:
            health = web.Application()
            self._add_health(health)
            self._health = Listener(health, host=health_host, port=health_port)

    @property
    def port(self) -> int:
        """Return the port of the verbs after `start()`."""
        return self._listener.port

    @property
    def health_port(self) -> int:
        """Return the second port after `start()`; 0 if there is none."""
        return self._health.port if self._health is not None else 0

    async def start(self) -> None:
        """Listen.

        Raises:
            UsageError: an address cannot be used.
        """
        await self._listener.start()
        if self._health is not None:
            try:
                await self._health.start()
            except BaseException:
                await self._listener.stop()
                raise

    async def stop(self) -> None:
        """End the requests in progress and close the sockets."""
        await self._listener.stop()
        if self._health is not None:
            await self._health.stop()

    def _add_health(self, app: web.Application) -> None:
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/readyz/standby", self._standby_readyz)
        app.router.add_get("/readyz/second-allocator", self._second_allocator_readyz)
        app.router.add_get("/metrics", self._metrics)

    async def _answer(self, name: str, request: web.Request) -> web.Response:
        verb, started, outcome = _VERBS[name], time.monotonic(), "canceled"
        try:
            body = await _read(request, verb)
            answer = await self._process.calls.run(partial(verb.call, body))
            outcome = "ok"
        except ExtenderRequestError as error:
            outcome = "malformed"
            _log.warning("%s: %s", name, error)
            return _error(verb, str(error))
        except DraError as error:
            outcome = "error"
            # kube-scheduler shows the error of `filter` and `bind` in an Event of the pod.
            _log.log(logging.WARNING if verb.error is None else logging.DEBUG, "%s: %s", name, error)
            return _error(verb, str(error))
        except Exception:  # even a defect must be answered
            outcome = "defect"
            _log.exception("%s cannot be answered", name)
            return _error(verb, "internal error of `dradriver scheduler`, see its log")
        finally:
            self._process.metrics.record_request(name, outcome, time.monotonic() - started)
        return _json(answer)

    async def _explain(self, request: web.Request) -> web.Response:
        """Answer what the extender knows about the pod `?pod=NAMESPACE/NAME`."""
        ref = request.query.get("pod", "")
        if not all(ref.partition("/")):
            return web.Response(status=400, text="pod: must be NAMESPACE/NAME\n")

        async def explain(verbs: Verbs) -> PodState:
            return verbs.explain(ref)

        try:
            return _json(await self._process.calls.run(explain))
        except DraError as error:
            return web.Response(status=503, text=f"{error}\n")

    async def _livez(self, _request: web.Request) -> web.Response:
        return answer_probe(await self._process.liveness())

    async def _readyz(self, _request: web.Request) -> web.Response:
        return answer_probe(self._process.readiness, self._process.calls.notice)

    async def _standby_readyz(self, _request: web.Request) -> web.Response:
        return answer_probe(self._process.standby_readiness)

    async def _second_allocator_readyz(self, _request: web.Request) -> web.Response:
        return answer_probe(self._process.calls.second_allocator)

    async def _metrics(self, _request: web.Request) -> web.Response:
        return answer_metrics(self._process.metrics.registry)


async def _read(request: web.Request, verb: _Verb) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        text = f"the request is larger than {LARGEST_BODY // 1024 // 1024} MiB"
        # Whole nodes of a large cluster exceed the limit, and names do not.
        advice = f", so it contains whole nodes. {_ADVICE}" if verb.lists_nodes else ""
        raise ExtenderRequestError(f"{text}{advice}") from None


def _decode(kind: type[T], body: bytes) -> T:
    try:
        return decode(kind, body)
    except InvalidObjectError as error:
        raise ExtenderRequestError(f"the request is not valid: {error}") from None


def _given(nodes: T | None) -> T:
    if nodes is None:
        raise ExtenderRequestError(f"the request contains no names of nodes. {_ADVICE}")
    return nodes


def _json(answer: object) -> web.Response:
    return web.Response(body=encode(answer), content_type="application/json")


def _error(verb: _Verb, text: str) -> web.Response:
    return web.Response(status=500, text=f"{text}\n") if verb.error is None else _json(verb.error(text))
