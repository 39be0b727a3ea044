"""The calls of `bind` in progress.

kube-scheduler may repeat a call whose answer was lost, so calls for one pod and one node share one result. If
all callers have gone, the call is abandoned: nobody would learn of the binding.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from dradriver.errors import DraError

__all__ = ["BindCalls", "BindError"]


class BindError(DraError):
    """The pod was not bound; the message is for the event that kube-scheduler writes."""


@dataclass(slots=True, eq=False)
class _BindCall:
    """A call, and a future for each of its callers, because a caller that is canceled cancels its future."""

    uid: str
    node: str
    callers: "list[asyncio.Future[None]]" = field(default_factory=list)


class BindCalls:
    """The calls by `namespace/name` of their pods.

    Args:
        on_abandoned: called with the pod when the last caller has gone before the result.
    """

    def __init__(self, on_abandoned: Callable[[str], None]) -> None:
        self._on_abandoned = on_abandoned
        self._calls: dict[str, _BindCall] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def node(self, key: str) -> str | None:
        """Return the node of the pod's call; None if there is no call."""
        call = self._calls.get(key)
        return call.node if call is not None else None

    def uid(self, key: str) -> str:
        """Return the UID of the pod for which a call was made; empty if there is no call."""
        call = self._calls.get(key)
        return call.uid if call is not None else ""

    def is_for(self, key: str, uid: str, node: str) -> bool:
        """Return whether there is a call for this pod and this node."""
        call = self._calls.get(key)
        return call is not None and (call.uid, call.node) == (uid, node)

    async def wait(self, key: str, uid: str, node: str, start: Callable[[str], None]) -> None:
        """Wait for the result of a call. The first caller starts the work.

        Args:
            key: `namespace/name` of the pod.
            uid: the UID of the pod.
            node: the node to bind to.
            start: called with the pod; starts the work that ends with `succeed` or `fail`.

        Raises:
            BindError: the pod was not bound.
        """
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _BindCall(uid, node)
            start(key)
        elif not self.is_for(key, uid, node):
            raise BindError(f"pod {key} (uid {call.uid}) is being bound to node {call.node}")
        caller = asyncio.get_running_loop().create_future()
        call.callers.append(caller)
        try:
            await caller
        finally:
            call.callers.remove(caller)
            if not call.callers and self._calls.get(key) is call:
                del self._calls[key]
                self._on_abandoned(key)

    def succeed(self, key: str) -> None:
        """End the call of a pod that is bound; a no-op if there is none."""
        call = self._calls.pop(key, None)
        for caller in call.callers if call is not None else ():
            if not caller.done():
                caller.set_result(None)

    def fail(self, key: str, reason: str) -> None:
        """End the call of a pod that was not bound; a no-op if there is none."""
        call = self._calls.pop(key, None)
        for caller in call.callers if call is not None else ():
            if not caller.done():
                caller.set_exception(BindError(reason))
