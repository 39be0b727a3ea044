"""Explains why pods and claims wait, from the objects that the page follows."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from dradriver.cli.attempt import AttemptSettings
from dradriver.cli.explanation import Question, explain_claim, explain_pod
from dradriver.cli.world import World, list_classic, list_if_allowed, list_prepare_failures, list_typed
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.kube import CLASSES, TEMPLATES, Client
from dradriver.model.resource.claim import ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.monitor import LiveOverview

__all__ = ["CachedExplanations"]


class CachedExplanations:
    """Answers what `dradriver explain` answers, with the objects of a `LiveOverview`.

    It reads only classes, templates and events from the API server. One explanation is computed at a time, in a
    thread, because it can take a second in a large cluster.
    """

    def __init__(self, client: Client, live: LiveOverview, settings: AttemptSettings) -> None:
        """Explain nothing yet.

        Args:
            client: the API server.
            live: the objects.
            settings: how devices would be allocated.
        """
        self._client, self._live = client, live
        self._computing = asyncio.Lock()
        self._settings = settings

    async def __call__(self, kind: str, ref: str) -> Sequence[str]:
        """Return the explanation of an object as lines.

        Args:
            kind: `Pod` or `ResourceClaim`.
            ref: `namespace/name` of the object.

        Raises:
            DraError: the object does not exist, or the API server does not answer.
        """
        async with self._computing:
            world = await self._read_world()
            question = Question(world, self._settings, BindingDeadline(datetime.now(UTC)))
            explain = explain_pod if kind == "Pod" else explain_claim
            return await asyncio.to_thread(lambda: list(explain(question, ref).lines()))

    async def _read_world(self) -> World:
        client, live = self._client, self._live
        claims = list(live.claims.items.values())
        classes, templates, events = await asyncio.gather(
            list_typed(client, CLASSES, DeviceClass),
            list_if_allowed(client, TEMPLATES, ResourceClaimTemplate),
            list_prepare_failures(client),
        )
        contexts, records, leases, failures = await list_classic(client, classes, claims)
        return World(
            slices=list(live.slices.items.values()),
            classes={each.metadata.name: each for each in classes},
            claims={each.ref: each for each in claims},
            templates={f"{each.metadata.namespace}/{each.metadata.name}": each for each in templates},
            pods={each.ref: each for each in live.pods.items.values()},
            nodes={each.metadata.name: each for each in live.nodes.items.values()},
            taint_rules=list(live.rules.items.values()),
            events=[*events, *failures],
            scheduling_contexts={each.ref: each for each in contexts},
            controller_allocations={each.ref: each for each in records},
            leases=leases,
            namespace=client.namespace,
        )
