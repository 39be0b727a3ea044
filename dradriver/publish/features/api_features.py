"""What the API server is known to store and to drop.

Gates belong to the server, not to a pool, so all pools share this. It is asked with dry runs: they create
nothing, and an update would keep a field that the stored object already uses even though its gate is off.
What it stores is believed until a watch ends: the server that answers next may have been started without the
gate. What it drops is asked about again then too, for it may have been started with it, and every five minutes.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dradriver.kube import SLICES, Client, Invalid
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec
from dradriver.publish.features.dropped_fields import DroppedField, dropped_fields, gated_fields, refused_fields
from dradriver.publish.owner import SliceOwner

__all__ = ["ServerFeatures"]


PROBE_SECONDS: Final = 300.0
"""A gate that was off is asked about again this often."""


class ServerFeatures:
    """Fields behind gates: stored, dropped, or not known yet.

    Args:
        client: the API server.
        owner: of the slices, and so of the dry runs: an admission policy may judge shared ones by it.
        cuts: returns a number that grows when a watch ends or is opened again, see `OwnSlices.cuts`: nothing
            is known to be stored any more once it has grown.

    Attributes:
        dropped: what the server does not store.
        words: what it said, where it refused instead of dropping.
    """

    def __init__(self, client: Client, owner: SliceOwner, cuts: Callable[[], int]) -> None:
        self.dropped: frozenset[DroppedField] = frozenset()
        self.words = ""
        self._client = client
        self._owner = owner
        self._stored: frozenset[DroppedField] = frozenset()
        self._cuts = cuts
        self._seen_cuts = 0
        self._asked: dict[DroppedField, tuple[float, int]] = {}

    def knows(self, field: DroppedField) -> bool:
        """Whether it is known what the server does with the field now."""
        return field in self.dropped or (self._cuts() == self._seen_cuts and field in self._stored)

    def due(self, fields: Iterable[DroppedField]) -> bool:
        """Whether it is time to ask again about those of the fields that were dropped."""
        dropped, cuts = self.dropped.intersection(fields), self._cuts()
        return any(self._asked[field][1] != cuts for field in dropped) or (
            bool(dropped) and self.due_in(dropped) <= 0
        )

    def due_in(self, fields: Iterable[DroppedField]) -> float:
        """Seconds until one of these dropped fields is asked about again, if no watch is opened before."""
        first = min(self._asked[field][0] for field in fields)
        return max(0.0, first + PROBE_SECONDS - time.monotonic())

    def learn(self, sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> bool:
        """Takes note of a write's answer; True if it dropped something."""
        dropped = dropped_fields(sent, stored)
        self._note(gated_fields(sent))
        self.dropped |= dropped
        self._stored = (self._stored | gated_fields(sent)) - dropped
        return bool(dropped)

    async def probe(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Finds out about the fields in `specs` that are not known yet; True if any is dropped.

        Args:
            specs: what is about to be written.

        Raises:
            DraError: the server refuses a spec for a reason that no gate explains, or there is no owner.
        """
        self._forget_after_cut()
        dropped, stored = await self._ask(specs, self._stored)
        self._stored |= stored
        self.dropped |= dropped
        return bool(dropped)

    async def probe_again(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Asks anew about everything that `specs` use; True if the server stores now what it dropped before.

        Args:
            specs: a pool that uses fields which were dropped.

        Raises:
            DraError: the server refuses a spec for a reason that no gate explains, or there is no owner.
        """
        self._forget_after_cut()
        dropped, stored = await self._ask(specs, frozenset())
        recovered = self.dropped & stored
        self.dropped -= recovered
        self._stored |= stored
        if not self.dropped:
            self.words = ""
        # Counters were dropped and are not any more: their groups may be, and were not seen until now.
        self.dropped |= dropped
        return bool(recovered)

    def _forget_after_cut(self) -> None:
        """Forgets what is stored if a watch has ended since."""
        if (cuts := self._cuts()) != self._seen_cuts:
            self._stored = frozenset()
            self._seen_cuts = cuts

    def _note(self, fields: Iterable[DroppedField]) -> None:
        """The server has just shown what it does with these."""
        self._asked |= dict.fromkeys(fields, (time.monotonic(), self._seen_cuts))

    async def _ask(
        self, specs: Sequence[ResourceSliceSpec], known: frozenset[DroppedField]
    ) -> tuple[frozenset[DroppedField], frozenset[DroppedField]]:
        dropped: frozenset[DroppedField] = frozenset()
        stored: frozenset[DroppedField] = frozenset()
        for spec in specs:
            used = gated_fields(spec)
            if used <= known | stored | dropped:
                continue
            missing = await self._missing(spec)
            self._note(used)
            dropped |= missing
            stored |= used - missing
        return dropped, stored - dropped

    async def _missing(self, spec: ResourceSliceSpec) -> frozenset[DroppedField]:
        owner = await self._owner.reference()
        name = f"probe-{spec.driver}-"
        meta = ObjectMeta(generate_name=name, owner_references=[owner] if owner else [])
        probe = ResourceSlice(metadata=meta, spec=spec)
        try:
            answer = await self._client.create(SLICES, probe, into=ResourceSlice, dry_run=True)
        except Invalid as error:
            missing = refused_fields(spec, (cause.field for cause in error.details.causes))
            if not missing:
                raise
            self.words = error.message
            return missing
        return dropped_fields(spec, answer.spec)
