"""The answers to probes and to Prometheus."""

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

__all__ = ["answer_metrics", "answer_probe"]


def answer_probe(problem: str, notice: str = "") -> web.Response:
    """Return the answer to a probe.

    Args:
        problem: why the probe fails; empty if it succeeds.
        notice: a second line of the answer to a probe that succeeds, for operators; empty: no line.
    """
    if problem:
        return web.Response(status=503, text=f"{problem}\n")
    return web.Response(text=f"ok\n{notice}\n" if notice else "ok\n")


def answer_metrics(registry: CollectorRegistry) -> web.Response:
    """Return the metrics of a registry in Prometheus' text format."""
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
