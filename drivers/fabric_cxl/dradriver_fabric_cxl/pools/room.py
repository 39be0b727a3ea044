"""Chooses memory and accelerators for claims, from what the fabric has left. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import (
    AttachRequest,
    FabricHealth,
    Host,
    MemoryDomain,
    MemoryRequest,
)
from dradriver_fabric_cxl.offer import FabricLayout, round_up
from dradriver_fabric_cxl.pools.wanted import WantedDevice, name_pool

__all__ = ["FabricRoom"]

_USABLE: Final = FabricHealth.OK


class FabricRoom:
    """What a fabric has left at one time.

    Args:
        layout: the resources of the fabric, its nodes, and what is attached.
        reserved: attachments that this process is making. The fabric may not show them yet.
    """

    def __init__(self, layout: FabricLayout, reserved: Iterable[AttachRequest] = ()) -> None:
        self._layout = layout
        self._pool = name_pool(layout.pool_name)
        made = {each.identity.tag: each for each in layout.attachments}
        planned = {each.identity.tag: each for each in reserved}
        identities = {tag: each.identity for tag, each in (made | planned).items()}
        self._held = {(each.claim, each.share): each for each in identities.values() if each.pool == self._pool}
        self._hosts = {tag: each.host for tag, each in planned.items()}
        self._hosts |= {tag: each.host for tag, each in made.items() if each.host}
        self._used_names = {each.device for each in identities.values()}
        self._free = {each.id: _count_free(each, planned.values()) for each in layout.inventory.domains}

    def choose_node(self, wanted: Sequence[WantedDevice]) -> str:
        """Return the node that gets devices which are allocated for any node.

        The node of a device that is attached already is kept. Otherwise it is a node with the most free
        attachments.

        Args:
            wanted: the devices of one claim.

        Raises:
            AllocationError: no node can get all of the devices.
        """
        tags = [held.tag for each in wanted if (held := self._held.get((each.claim, each.slot)))]
        kept = [self._layout.find_node(self._hosts[tag]) for tag in tags if tag in self._hosts]
        nodes = [node for node in kept if node][:1] or self._layout.list_nodes()
        fitting = [node for node in nodes if not self.find_obstacle(node, wanted)]
        if not fitting:
            reasons = "; ".join(self.find_obstacle(node, wanted) for node in nodes)
            raise dra.AllocationError(reasons or "no node has a host of the fabric")
        return max(fitting, key=self._count_free_attachments)

    def find_obstacle(self, node: str, wanted: Sequence[WantedDevice]) -> str:
        """Return why a node cannot get all of the devices together; empty if it can.

        Args:
            node: name of the node.
            wanted: the devices.
        """
        try:
            self.place(node, wanted)
        except dra.AllocationError as error:
            return str(error)
        return ""

    def place(self, node: str, wanted: Sequence[WantedDevice]) -> list[AttachRequest]:
        """Return how to attach all of the devices to a node; what is attached already stays the same.

        Memory is taken from the domain with the least room, largest size first. So large rooms stay.

        Args:
            node: name of the node.
            wanted: the devices.

        Returns:
            A request for each device, in the order of `wanted`.

        Raises:
            AllocationError: the node cannot get all of them.
        """
        hosts = [each for each in self._layout.list_hosts(node) if each.health is _USABLE]
        reasons = []
        for host in hosts:
            try:
                return self._place(host, wanted)
            except dra.AllocationError as error:
                reasons.append(f"node {node}: {error}")
        raise dra.AllocationError("; ".join(reasons) or f"node {node}: it has no usable host of the fabric")

    def _place(self, host: Host, wanted: Sequence[WantedDevice]) -> list[AttachRequest]:
        free, used = dict(self._free), set(self._used_names)
        requests = {}
        for each in sorted(wanted, key=lambda each: -each.mebibytes):
            target, name = self._continue(each) or self._choose(each, free, used)
            requests[each] = AttachRequest(each.identify(self._pool, name), host.id, target)
        new = sum(self._hosts.get(each.identity.tag) != host.id for each in requests.values())
        left = self._count_left(host)
        if new > left:
            raise dra.AllocationError(f"host {host.id} has {max(0, left)} attachments left, {new} are needed")
        return [requests[each] for each in wanted]

    def _continue(self, wanted: WantedDevice) -> tuple[MemoryRequest | str, str] | None:
        """Return the target and name of a device that is attached, or is being attached, already."""
        held = self._held.get((wanted.claim, wanted.slot))
        if held is None:
            return None
        if not wanted.mebibytes:
            accelerator = self._layout.list_accelerators().get(held.device)
            if accelerator is None:
                raise dra.AllocationError(f"the fabric no longer has accelerator {held.device}")
            return accelerator.id, held.device
        for domain in self._layout.inventory.domains:
            if wanted.name_memory(domain.id) == held.device:
                return MemoryRequest(domain.id, round_up(domain, wanted.mebibytes)), held.device
        raise dra.AllocationError(f"the fabric no longer has the memory domain of {held.device}")

    def _choose(
        self, wanted: WantedDevice, free: dict[str, int], used: set[str]
    ) -> tuple[MemoryRequest | str, str]:
        """Return a target and its name, and take it from `free` or `used`."""
        if not wanted.mebibytes:
            for name, accelerator in self._layout.list_accelerators().items():
                if accelerator.health is _USABLE and name not in used:
                    used.add(name)
                    return accelerator.id, name
            raise dra.AllocationError("the fabric has no free accelerator")
        domains = [
            (free[each.id], each.id, round_up(each, wanted.mebibytes))
            for each in self._layout.inventory.domains
            if each.makes_chunks and each.health is _USABLE
        ]
        fitting = [each for each in domains if each[2] <= each[0]]
        if not fitting:
            largest = max((room for room, _, _ in domains), default=0)
            raise dra.AllocationError(
                f"no memory domain has {wanted.mebibytes} MiB left, at most {max(0, largest)} MiB"
            )
        _, domain, size = min(fitting)
        free[domain] -= size
        return MemoryRequest(domain, size), wanted.name_memory(domain)

    def _count_left(self, host: Host) -> int:
        return self._layout.count_attachments(host) - Counter(self._hosts.values())[host.id]

    def _count_free_attachments(self, node: str) -> int:
        return max((self._count_left(each) for each in self._layout.list_hosts(node)), default=0)


def _count_free(domain: MemoryDomain, planned: Iterable[AttachRequest]) -> int:
    """Return the mebibytes that are neither in chunks nor planned."""
    made = {each.identity.tag for each in domain.chunks if each.identity is not None}
    coming = (
        each.target.mebibytes
        for each in planned
        if isinstance(each.target, MemoryRequest)
        and each.target.domain == domain.id
        and each.identity.tag not in made
    )
    return domain.mebibytes - sum(each.mebibytes for each in domain.chunks) - sum(coming)
