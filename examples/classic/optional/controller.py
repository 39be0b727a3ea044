"""The controller of an optional resource: a claim that need not get a card (KEP-3063, optional resources).

The cards of each node are in `$CARDS`, for example `{"node-1": ["card-0", "card-1"], "node-2": ["card-0"]}`.
The record of the allocations is the file `$CARD_RECORD`.
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import dradriver as dra
from examples.classic.record import HardwareRecord


class CardClaim(dra.Config):
    """Parameters of a claim. Users write it under `ControllerClaim.parameters`.

    Attributes:
        optional: whether the claim is also satisfied by nothing, when all cards are in use.
    """

    api_version = "card.example.com/v1"
    kind = "CardClaim"
    optional: bool = False


class CardController(dra.ControllerDriver):
    name = "card.example.com"
    claim_configs = (CardClaim,)

    def __init__(self, cards: Mapping[str, Sequence[str]] | None = None, record: Path | None = None) -> None:
        self._cards = json.loads(os.environ.get("CARDS", "{}")) if cards is None else cards
        self._asked: set[str] = set()
        self._record = HardwareRecord(record or Path(os.environ.get("CARD_RECORD", "cards.json")))

    def unsuitable_nodes(
        self,
        pod: dra.PendingPod,  # noqa: ARG002 - the claims contain everything
        claims: Sequence[dra.PendingClaim],
        nodes: Sequence[str],
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes without enough cards.

        A node that lacks only optional cards is unsuitable only while another one of these nodes has them.
        """
        self._asked |= {claim.uid for claim in claims}
        record = self._record.read()
        free = {node: len(cards) for node, cards in self._list_free(record).items()}
        pending = [claim for claim in claims if claim.uid not in record]
        required = sum(count_cards(claim) for claim in pending if not is_optional(claim))
        wanted = sum(count_cards(claim) for claim in pending)
        full = {node for node in nodes if free.get(node, 0) >= wanted}
        suitable = full or {node for node in nodes if free.get(node, 0) >= required}
        return {claim.uid: [node for node in nodes if node not in suitable] for claim in claims}

    def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        """Take cards of the node for each claim, and nothing for an optional claim without enough cards.

        For a pod with a single claim, the scheduler selects a node before it asks for unsuitable nodes. So the
        first attempt without a card fails while another node has cards. The SDK then asks for unsuitable nodes,
        and the scheduler selects another node if the pod can run there.

        Required claims come first, so that an optional one cannot take their card. If the process dies after
        the record is written, the next `allocate` finds the cards there and returns the same result.
        """
        results: dict[str, dra.ControllerAllocationResult | dra.AllocationError] = {}
        with self._record.change() as record:
            for claim in sorted(claims, key=is_optional):
                if claim.uid not in record:
                    units = self._choose(record, claim, node)
                    if not units and (reason := self._find_obstacle(record, claim, node)):
                        results[claim.uid] = dra.AllocationError(reason)
                        continue
                    record[claim.uid] = units
                results[claim.uid] = make_result(claim, record[claim.uid])
        return results

    def deallocate(self, claim: dra.RecordedClaim) -> None:
        self._asked.discard(claim.uid)
        with self._record.change() as record:
            record.pop(claim.uid, None)

    def allocations(self) -> Collection[str]:
        return self._record.read().keys()

    def _choose(
        self, record: Mapping[str, Sequence[str]], claim: dra.PendingClaim, node: str | None
    ) -> list[str]:
        """Return cards for a claim as `NODE/CARD`; nothing if there are not enough."""
        free, count = self._list_free(record), count_cards(claim)
        nodes = [node] if node else sorted(free, key=lambda each: len(free[each]), reverse=True)
        for each in nodes:
            if len(cards := free.get(each, [])) >= count:
                return [f"{each}/{card}" for card in cards[:count]]
        return []

    def _find_obstacle(
        self, record: Mapping[str, Sequence[str]], claim: dra.PendingClaim, node: str | None
    ) -> str:
        """Return why a claim must not get nothing; empty if it may."""
        reason = f"{f'node {node}' if node else 'every node'} has too few free cards for claim {claim}"
        if not is_optional(claim):
            return reason
        if node and claim.uid not in self._asked and (other := self._choose(record, claim, None)):
            self._asked.add(claim.uid)
            return f"{reason}, but node {other[0].partition('/')[0]} has enough"
        return ""

    def _list_free(self, record: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        used = Counter(unit for units in record.values() for unit in units)
        return {
            node: [card for card in cards if not used[f"{node}/{card}"]] for node, cards in self._cards.items()
        }


def count_cards(claim: dra.PendingClaim) -> int:
    return sum(request.count for request in claim.requests)


def is_optional(claim: dra.PendingClaim) -> bool:
    parameters = [request.claim_parameters for request in claim.requests]
    return all(isinstance(each, CardClaim) and each.optional for each in parameters)


def make_result(claim: dra.PendingClaim, units: Sequence[str]) -> dra.ControllerAllocationResult:
    """Return the allocation of a claim that has these cards; without cards, the pod may run on any node."""
    if not units:
        return dra.ControllerAllocationResult(on_any_node=True)
    wanted = [request.name for request in claim.requests for _ in range(request.count)]
    devices = []
    for request, unit in zip(wanted, units, strict=True):
        node, _, card = unit.partition("/")
        devices.append(
            dra.ControllerDevice(request, CardController.name, f"{CardController.name}/{node}", card)
        )
    node = units[0].partition("/")[0]
    return dra.ControllerAllocationResult(devices, node_selector=dra.NodeSelector.for_node(node))


if __name__ == "__main__":
    dra.run(CardController)
