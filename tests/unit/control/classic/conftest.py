"""An API server with the definitions of classic DRA, and controllers that run against it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack

import pytest

from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, SCHEDULING_CONTEXTS, Cache
from dradriver.kube.definitions import install_definitions
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.testing import builders
from tests.unit.control.classic.live_driver import LiveDriver
from tests.unit.control.conftest import Lab, lab

__all__ = ["ClassicLab", "classic", "lab"]

A, B = "a.example.com", "b.example.com"


class ClassicLab:
    """A lab with the control plane and the drivers `a.example.com` and `b.example.com`."""

    def __init__(self, lab: Lab, stack: AsyncExitStack) -> None:
        self.lab = lab
        self.stack = stack
        self.contexts = Cache(lab.client, SCHEDULING_CONTEXTS, PodSchedulingContext)
        self.a, self.b = LiveDriver(lab.client, A), LiveDriver(lab.client, B)

    async def start(self, *, drivers: bool = True) -> None:
        await self.stack.enter_async_context(self.contexts)
        await self.contexts.wait_synced()
        if drivers:
            await self.stack.enter_async_context(self.a)
            await self.stack.enter_async_context(self.b)

    async def start_controllers(self, settings: SchedulerSettings | None = None) -> Controllers:
        made = Controllers(self.lab.client, settings or SchedulerSettings(pod_backoff=(0.01, 0.02)))
        return await self.stack.enter_async_context(made)

    async def claims(self, name: str, *classes: str) -> list[str]:
        """Create a claim `NAME-0`, `NAME-1` and so on for each class, and return their names."""
        for number, each in enumerate(classes):
            claim = builders.claim(builders.device_request(each), name=f"{name}-{number}")
            await self.lab.client.create(CLAIMS, claim, "default", into=dict)
        return [f"{name}-{number}" for number in range(len(classes))]

    async def pod(self, name: str, *classes: str, node_name: str = "") -> None:
        """Create a pod with a claim of its own for each class."""
        names = await self.claims(name, *classes)
        await self.lab.pods(builders.pod(*names, name=name, node_name=node_name))

    async def until_context(self, done: Callable[[Mapping[str, PodSchedulingContext]], object]) -> None:
        """Wait until the contexts are as wanted."""
        changed = asyncio.Event()
        stop = self.contexts.subscribe(lambda *_: changed.set())
        while not done(self.contexts.items):
            changed.clear()
            await changed.wait()
        stop()


@pytest.fixture
async def classic(lab: Lab) -> AsyncIterator[ClassicLab]:
    """A lab with the definitions of classic DRA; nothing runs yet."""
    await install_definitions(lab.client)
    async with AsyncExitStack() as stack:
        yield ClassicLab(lab, stack)
