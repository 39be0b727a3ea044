"""The webhook's HTTPS server.

It has no state. If the process dies within a request, nothing is decided, and the API server applies its
`failurePolicy`.
"""

import asyncio
import errno
import logging
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

from dradriver.admission.configs import Known
from dradriver.admission.review import MalformedReviewError, Verdict, review
from dradriver.errors import UsageError

__all__ = ["LARGEST_BODY", "PATH", "THREADS", "Webhook"]

PATH: Final = "/validate-resource-claim-parameters"
LARGEST_BODY: Final = 8 * 1024 * 1024
"""Bytes: an object and its predecessor, 3 MiB each at most, and the rest of the review."""

THREADS: Final = "webhook-review"
"""Prefix of the names of threads that run authors' rules. A rule that never returns cannot be ended."""
_THREADS: Final = 16
_SHUTDOWN_SECONDS: Final = 3.0

_log = logging.getLogger("dradriver.admission")


class Webhook:
    """Answers the reviews of API servers.

    Args:
        known: the configuration classes of the drivers.
        context: the TLS context for listening.
        host: the address to listen on. "": all addresses.
        port: the port. 0: any free one.
        patience: seconds that a review may take; no API server waits longer. After that, `/healthz` fails,
            because only a restart frees a thread whose rule does not return.

    Attributes:
        port: the port on which it listens, once started.
    """

    def __init__(
        self,
        known: Known,
        context: ssl.SSLContext,
        *,
        host: str = "",
        port: int = 0,
        patience: float = 30.0,
    ) -> None:
        self.port = port
        self._patience = patience
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=THREADS)
        self._begun: dict[object, float] = {}
        self._known, self._context, self._host = known, context, host
        self._stopping = False
        self._runner: web.AppRunner | None = None
        self._registry = CollectorRegistry()
        self._reviews = Counter(
            "dradriver_webhook_reviews_total",
            "Admission reviews, by what became of them: allowed, denied or malformed.",
            ["outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "dradriver_webhook_review_seconds", "Time to decide on a review.", registry=self._registry
        )

    async def start(self) -> None:
        """Listen.

        Raises:
            UsageError: the address cannot be used.
        """
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post(PATH, self._review)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        # No access log: it would have a line for every probe.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host or None, self.port, ssl_context=self._context)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            taken = error.errno == errno.EADDRINUSE
            words = "another process listens there" if taken else error.strerror
            raise UsageError(f"can't listen on {self._host or 'port'}:{self.port}: {words}") from error
        self.port = self._runner.addresses[0][1]

    def drain(self) -> None:
        """Let `/readyz` fail, and continue to answer: API servers stop sending requests only after a moment."""
        self._stopping = True

    async def stop(self) -> None:
        """End the requests in progress and close the socket."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _review(self, request: web.Request) -> web.Response:
        body = await request.read()
        begun = time.monotonic()
        try:
            verdict = await self._decided(body)
        except MalformedReviewError as error:
            self._reviews.labels("malformed").inc()
            _log.warning("a request that is no AdmissionReview was answered 400")
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        self._seconds.observe(time.monotonic() - begun)
        self._reviews.labels(verdict.outcome).inc()
        if verdict.mistakes:
            # Only the number: a message would contain parts of the configuration.
            count = f"{verdict.mistakes} mistake{'s' if verdict.mistakes > 1 else ''}"
            _log.info("%s %s is denied: %s", verdict.operation, verdict.subject, count)
        if verdict.warning:
            _log.warning("%s: %s", verdict.subject, verdict.warning)
        return web.Response(body=verdict.answer, content_type="application/json")

    async def _decided(self, body: bytes) -> Verdict:
        """Decide in a thread: authors' rules are unknown code, and may take any time."""
        loop = asyncio.get_running_loop()
        running = self._threads.submit(review, body, self._known)
        self._begun[running] = loop.time()
        running.add_done_callback(self._begun.pop)
        return await asyncio.wrap_future(running)

    async def _healthz(self, _request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        longest = max((now - begun for begun in list(self._begun.values())), default=0.0)
        if longest > self._patience:
            text = f"a review has taken {longest:.0f} s: a rule of a driver does not return\n"
            return web.Response(status=503, text=text)
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        if self._stopping:
            return web.Response(status=503, text="stopping\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
