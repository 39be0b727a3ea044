"""What the API server is known to store and to drop.

Gates belong to the server, not to a pool, so all pools share this. It is asked with dry runs: they create
nothing, and an update would keep a field that the stored object already uses even though its gate is off.
What it stores is believed until a watch ends: the server that answers next may have been started without the
gate.
"""

import time
from collections.abc import Sequence
from typing import Final

from dradriver.kube import SLICES, Client, Invalid
from dradriver.model.meta import ObjectMeta
from dradriver.model.slices import ResourceSlice, ResourceSliceSpec
from dradriver.publish.dropped import DroppedField, dropped_fields, gated_fields, refused_fields

__all__ = ["Features"]


PROBE_SECONDS: Final = 300.0
"""A gate that was off is asked about again this often."""


class Features:
    """Fields behind gates: stored, dropped, or not known yet.

    Attributes:
        dropped: what the server does not store.
        words: what it said, where it refused instead of dropping.
    """

    def __init__(self, client: Client) -> None:
        self.dropped: frozenset[DroppedField] = frozenset()
        self.words = ""
        self._client = client
        self._stored: frozenset[DroppedField] = frozenset()
        self._cuts = 0
        self._asked_at = time.monotonic()

    def due(self) -> bool:
        """Whether it is time to ask again about what was dropped."""
        return bool(self.dropped) and self.due_in() <= 0

    def due_in(self) -> float:
        """Seconds until then."""
        return max(0.0, self._asked_at + PROBE_SECONDS - time.monotonic())

    def learn(self, sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> bool:
        """Takes note of a write's answer; True if it dropped something."""
        dropped = dropped_fields(sent, stored)
        self.dropped |= dropped
        self._stored = (self._stored | gated_fields(sent)) - dropped
        return bool(dropped)

    async def probe(self, specs: Sequence[ResourceSliceSpec], cuts: int) -> bool:
        """Finds out about the fields in `specs` that are not known yet; True if any is dropped.

        Args:
            specs: what is about to be written.
            cuts: how many watches have ended so far; one more, and nothing is known to be stored any more.

        Raises:
            ApiError: the server refuses a spec for a reason that no gate explains.
        """
        if cuts != self._cuts:
            self._stored = frozenset()
            self._cuts = cuts
        dropped, stored = await self._ask(specs, self._stored)
        self._stored |= stored
        self.dropped |= dropped
        return bool(dropped)

    async def probe_again(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Asks anew about everything that `specs` use; True if the server stores now what it dropped before."""
        dropped, stored = await self._ask(specs, frozenset())
        recovered = self.dropped & stored
        self.dropped -= recovered
        self._stored |= stored
        if not self.dropped:
            self.words = ""
        # Counters were dropped and are not any more: their groups may be, and were not seen until now.
        self.dropped |= dropped
        return bool(recovered)

    async def _ask(
        self, specs: Sequence[ResourceSliceSpec], known: frozenset[DroppedField]
    ) -> tuple[frozenset[DroppedField], frozenset[DroppedField]]:
        self._asked_at = time.monotonic()
        dropped: frozenset[DroppedField] = frozenset()
        stored: frozenset[DroppedField] = frozenset()
        for spec in specs:
            used = gated_fields(spec)
            if used <= known | stored | dropped:
                continue
            missing = await self._missing(spec)
            dropped |= missing
            stored |= used - missing
        return dropped, stored - dropped

    async def _missing(self, spec: ResourceSliceSpec) -> frozenset[DroppedField]:
        probe = ResourceSlice(metadata=ObjectMeta(generate_name=f"probe-{spec.driver}-"), spec=spec)
        try:
            answer = await self._client.create(SLICES, probe, into=ResourceSlice, dry_run=True)
        except Invalid as error:
            missing = refused_fields(spec, (cause.field for cause in error.details.causes))
            if not missing:
                raise
            self.words = error.message
            return missing
        return dropped_fields(spec, answer.spec)
