"""Chooses the most complete runtime that works on this machine."""

from dradriver.cluster.runtime.base import Runtime
from dradriver.cluster.runtime.podman import probe_podman
from dradriver.cluster.runtime.process import ProcessRuntime
from dradriver.cluster.runtime.runc import probe_runc
from dradriver.errors import UsageError

__all__ = ["choose_runtime"]


async def choose_runtime(preferred: str | None = None) -> Runtime:
    """Return the preferred runtime, or the first of podman, runc and process that can run a container.

    Args:
        preferred: `podman`, `runc` or `process`.

    Raises:
        UsageError: the preferred runtime is unknown, or does not work on this machine. The message gives the
            reason.
    """
    if preferred not in {None, "podman", "runc", "process"}:
        raise UsageError(f"runtime {preferred!r} is unknown: use podman, runc or process")
    reasons: list[str] = []
    runtime: Runtime | None
    for name, probe in (("podman", probe_podman), ("runc", lambda: probe_runc(tuple(reasons)))):
        if preferred not in {None, name}:
            continue
        runtime, problem = await probe()
        if runtime is not None:
            return runtime
        if preferred is not None:
            raise UsageError(f"runtime {name} can't be used: {problem}")
        reasons.append(problem)
    return ProcessRuntime(tuple(reasons))
