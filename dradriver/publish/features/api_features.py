"""The fields that the API server is known to store and to drop.

Gates belong to the server, not to a pool, so all pools share this knowledge. The server is probed with dry-run
creates: they store nothing, while an update would keep a field that the stored object already uses although its
gate is off. A stored field counts as stored until a watch ends, because the next server may have been started
without the gate. A dropped field is probed again at the end of a watch, because the next server may have been
started with the gate, and every five minutes.
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
"""Interval of probes for a gate that was off."""


class ServerFeatures:
    """Fields behind gates: stored, dropped, or not known yet.

    Args:
        client: the API server.
        owner: the owner of the slices and of the dry runs: an admission policy may check shared slices by it.
        cuts: returns a number that grows when a watch ends or is reopened, see `OwnSlices.cuts`. After that, no
            field is known to be stored.

    Attributes:
        dropped: the fields that the server does not store.
        words: the server's message, where it rejected instead of dropping.
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
        """Return whether the server's present treatment of the field is known."""
        return field in self.dropped or (self._cuts() == self._seen_cuts and field in self._stored)

    def due(self, fields: Iterable[DroppedField]) -> bool:
        """Return whether the dropped ones of the fields are due for another probe."""
        dropped, cuts = self.dropped.intersection(fields), self._cuts()
        return any(self._asked[field][1] != cuts for field in dropped) or (
            bool(dropped) and self.due_in(dropped) <= 0
        )

    def due_in(self, fields: Iterable[DroppedField]) -> float:
        """Return the seconds until one of these dropped fields is probed again without a new watch."""
        first = min(self._asked[field][0] for field in fields)
        return max(0.0, first + PROBE_SECONDS - time.monotonic())

    def learn(self, sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> bool:
        """Learn from the answer to a write; True if it dropped something."""
        dropped = dropped_fields(sent, stored)
        self._note(gated_fields(sent))
        self.dropped |= dropped
        self._stored = (self._stored | gated_fields(sent)) - dropped
        return bool(dropped)

    async def probe(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Probe the fields in `specs` that are not known yet; True if any is dropped.

        Args:
            specs: the slices to write.

        Raises:
            DraError: the server rejects a spec for a reason that no gate explains, or there is no owner.
        """
        self._forget_after_cut()
        dropped, stored = await self._ask(specs, self._stored)
        self._stored |= stored
        self.dropped |= dropped
        return bool(dropped)

    async def probe_again(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Probe all gated fields of `specs` again; True if the server now stores a formerly dropped field.

        Args:
            specs: a pool that uses dropped fields.

        Raises:
            DraError: the server rejects a spec for a reason that no gate explains, or there is no owner.
        """
        self._forget_after_cut()
        dropped, stored = await self._ask(specs, frozenset())
        recovered = self.dropped & stored
        self.dropped -= recovered
        self._stored |= stored
        if not self.dropped:
            self.words = ""
        # Counters are no longer dropped. Their groups may be dropped, which was not visible until now.
        self.dropped |= dropped
        return bool(recovered)

    def _forget_after_cut(self) -> None:
        """Forget the stored fields if a watch has ended since."""
        if (cuts := self._cuts()) != self._seen_cuts:
            self._stored = frozenset()
            self._seen_cuts = cuts

    def _note(self, fields: Iterable[DroppedField]) -> None:
        """Record that the server has just shown its treatment of these fields."""
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
