"""Serve the webhook over HTTPS.

The server has no state. If the process dies during a request, the API server applies the `failurePolicy` of the
webhook.
"""

import asyncio
import logging
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from dradriver.admission.configs import ConfigClasses
from dradriver.admission.review import MalformedReviewError, Verdict, review
from dradriver.http_server.answers import answer_metrics, answer_probe
from dradriver.http_server.listener import Listener

__all__ = ["LARGEST_BODY", "PATH", "THREADS", "Webhook"]

PATH: Final = "/validate-resource-claim-parameters"
LARGEST_BODY: Final = 8 * 1024 * 1024
"""Maximum size of a request in bytes: the new and the old object, at most 3 MiB each, and the rest."""

THREADS: Final = "webhook-review"
"""Prefix of the names of the threads that run authors' rules; a rule that never returns cannot be ended."""
_THREADS: Final = 16

_log = logging.getLogger("dradriver.admission")


class Webhook:
    """Answers the reviews of API servers.

    Args:
        known: the configuration classes of the drivers.
        context: the TLS context for listening.
        host: the address to listen on. Empty: all addresses.
        port: the port. 0: any free port.
        max_review_seconds: maximum duration of a review; no API server waits longer. If a review takes longer,
            `/healthz` fails, because only a restart ends an author's rule that does not return.
    """

    def __init__(
        self,
        known: ConfigClasses,
        context: ssl.SSLContext,
        *,
        host: str = "",
        port: int = 0,
        max_review_seconds: float = 30.0,
    ) -> None:
        self._max_review_seconds = max_review_seconds
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=THREADS)
        self._started: dict[object, float] = {}
        self._known = known
        self._stopping = False
        self._registry = CollectorRegistry()
        self._reviews = Counter(
            "dradriver_webhook_reviews_total",
            "Admission reviews by outcome: allowed, denied or malformed.",
            ["outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "dradriver_webhook_review_seconds", "Time to decide on a review.", registry=self._registry
        )
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post(PATH, self._review)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._listener = Listener(app, host=host, port=port, context=context)

    @property
    def port(self) -> int:
        """Return the port on which the server listens after `start()`."""
        return self._listener.port

    async def start(self) -> None:
        """Listen.

        Raises:
            UsageError: the address cannot be used.
        """
        await self._listener.start()

    def drain(self) -> None:
        """Let `/readyz` fail; reviews are still answered, because API servers send them for a while longer."""
        self._stopping = True

    async def stop(self) -> None:
        """End the requests in progress and close the socket."""
        await self._listener.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _review(self, request: web.Request) -> web.Response:
        body = await request.read()
        started = time.monotonic()
        try:
            verdict = await self._decide(body)
        except MalformedReviewError as error:
            self._reviews.labels("malformed").inc()
            _log.warning("a request was rejected with 400: it is not an AdmissionReview")
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        self._seconds.observe(time.monotonic() - started)
        self._reviews.labels(verdict.outcome).inc()
        if verdict.error_count:
            # Only the number of errors is logged, because their messages contain parts of the configuration.
            count = f"{verdict.error_count} error{'s' if verdict.error_count > 1 else ''}"
            _log.info("%s %s is denied: %s", verdict.operation, verdict.subject, count)
        if verdict.warning:
            _log.warning("%s: %s", verdict.subject, verdict.warning)
        return web.Response(body=verdict.answer, content_type="application/json")

    async def _decide(self, body: bytes) -> Verdict:
        """Decide in a thread, because authors' rules are unknown code that may block."""
        loop = asyncio.get_running_loop()
        running = self._threads.submit(review, body, self._known)
        self._started[running] = loop.time()
        running.add_done_callback(self._started.pop)
        return await asyncio.wrap_future(running)

    async def _healthz(self, _request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        longest = max((now - started for started in list(self._started.values())), default=0.0)
        problem = f"a review has taken {longest:.0f} s: a rule of a driver does not return"
        return answer_probe(problem if longest > self._max_review_seconds else "")

    async def _readyz(self, _request: web.Request) -> web.Response:
        return answer_probe("stopping" if self._stopping else "")

    async def _metrics(self, _request: web.Request) -> web.Response:
        return answer_metrics(self._registry)
