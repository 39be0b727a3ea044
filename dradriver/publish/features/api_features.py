"""Records which fields the API server stores and which it drops.

Gates belong to the server, so all pools share this record. The server is probed with dry-run creates, which
store nothing. Updates are not suitable: if the stored object already uses a field, an update keeps the field
although its gate is off. A stored field counts as stored until a watch ends, because the next server may run
without the gate. A dropped field is probed again every five minutes and when a watch ends, because the next
server may run with the gate.
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
"""Interval in seconds of probes for a gate that was off."""


class ServerFeatures:
    """The fields behind gates. Each is known to be stored, known to be dropped, or not known yet.

    Args:
        client: the API server.
        owner: the owner of the slices. Dry runs have it too, because an admission policy may check it on shared
            slices.
        interruptions: returns a number that grows when a watch ends or is reopened (`OwnSlices.interruptions`).
            After the number has grown, no field is known to be stored.

    Attributes:
        dropped: the fields that the server is known to drop.
        server_message: the server's message if it rejected a spec because of a dropped field.
    """

    def __init__(self, client: Client, owner: SliceOwner, interruptions: Callable[[], int]) -> None:
        self.dropped: frozenset[DroppedField] = frozenset()
        self.server_message = ""
        self._client = client
        self._owner = owner
        self._stored: frozenset[DroppedField] = frozenset()
        self._interruptions = interruptions
        self._seen_interruptions = 0
        self._probed: dict[DroppedField, tuple[float, int]] = {}

    def is_known(self, field: DroppedField) -> bool:
        """Return whether the server is known to store the field, or known to drop it."""
        return field in self.dropped or (
            self._interruptions() == self._seen_interruptions and field in self._stored
        )

    def is_probe_due(self, fields: Iterable[DroppedField]) -> bool:
        """Return whether dropped fields among `fields` must be probed again now."""
        dropped, interruptions = self.dropped.intersection(fields), self._interruptions()
        return any(self._probed[field][1] != interruptions for field in dropped) or (
            bool(dropped) and self.seconds_until_probe(dropped) <= 0
        )

    def seconds_until_probe(self, fields: Iterable[DroppedField]) -> float:
        """Return the seconds until one of these dropped fields is probed again if no watch ends before."""
        first = min(self._probed[field][0] for field in fields)
        return max(0.0, first + PROBE_SECONDS - time.monotonic())

    def learn(self, sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> bool:
        """Record the fields that a write stored or dropped; True if it dropped any."""
        dropped = dropped_fields(sent, stored)
        self._record_probe(gated_fields(sent))
        self.dropped |= dropped
        self._stored = (self._stored | gated_fields(sent)) - dropped
        return bool(dropped)

    async def probe(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Probe the fields in `specs` that are not known yet; True if the server drops any of them.

        Args:
            specs: the specs of the slices that are to be written.

        Raises:
            DraError: the server rejects a spec for a reason that no gate explains, or there is no owner.
        """
        self._forget_after_interruption()
        dropped, stored = await self._probe_specs(specs, self._stored)
        self._stored |= stored
        self.dropped |= dropped
        return bool(dropped)

    async def probe_again(self, specs: Sequence[ResourceSliceSpec]) -> bool:
        """Probe all gated fields of `specs` again; True if the server now stores a field that it dropped.

        Args:
            specs: the specs of a pool that uses dropped fields.

        Raises:
            DraError: the server rejects a spec for a reason that no gate explains, or there is no owner.
        """
        self._forget_after_interruption()
        dropped, stored = await self._probe_specs(specs, frozenset())
        recovered = self.dropped & stored
        self.dropped -= recovered
        self._stored |= stored
        if not self.dropped:
            self.server_message = ""
        # If counters are stored again, the same answer can show for the first time that groups are dropped.
        self.dropped |= dropped
        return bool(recovered)

    def _forget_after_interruption(self) -> None:
        """Forget the stored fields if a watch has ended since the last call."""
        if (interruptions := self._interruptions()) != self._seen_interruptions:
            self._stored = frozenset()
            self._seen_interruptions = interruptions

    def _record_probe(self, fields: Iterable[DroppedField]) -> None:
        """Record that it is now known whether the server stores these fields."""
        self._probed |= dict.fromkeys(fields, (time.monotonic(), self._seen_interruptions))

    async def _probe_specs(
        self, specs: Sequence[ResourceSliceSpec], known: frozenset[DroppedField]
    ) -> tuple[frozenset[DroppedField], frozenset[DroppedField]]:
        dropped: frozenset[DroppedField] = frozenset()
        stored: frozenset[DroppedField] = frozenset()
        for spec in specs:
            used = gated_fields(spec)
            if used <= known | stored | dropped:
                continue
            dropped_here = await self._probe_spec(spec)
            self._record_probe(used)
            dropped |= dropped_here
            stored |= used - dropped_here
        return dropped, stored - dropped

    async def _probe_spec(self, spec: ResourceSliceSpec) -> frozenset[DroppedField]:
        owner = await self._owner.reference()
        name = f"probe-{spec.driver}-"
        meta = ObjectMeta(generate_name=name, owner_references=[owner] if owner else [])
        probe = ResourceSlice(metadata=meta, spec=spec)
        try:
            answer = await self._client.create(SLICES, probe, into=ResourceSlice, dry_run=True)
        except Invalid as error:
            dropped_here = refused_fields(spec, (cause.field for cause in error.details.causes))
            if not dropped_here:
                raise
            self.server_message = error.message
            return dropped_here
        return dropped_fields(spec, answer.spec)
