"""The pool of a fabric, and the pools for an API server that drops fields."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import Accelerator, FabricAttachment, FabricInventory, Host, MemoryDomain
from dradriver_fabric_cxl.offer.devices import ATTACHMENTS, MEBIBYTES, make_device, select_nodes
from dradriver_fabric_cxl.offer.hosts import match_hosts
from dradriver_fabric_cxl.offer.labels import make_labels
from dradriver_fabric_cxl.offer.offers import FabricOffer, count_attachments, list_offers, list_shared_parts
from dradriver_fabric_cxl.offer.rules import OfferRules
from dradriver_fabric_cxl.offer.sizes import compute_available, round_up
from dradriver_fabric_cxl.offer.taints import make_taints

__all__ = ["FabricLayout"]

_MEMORY_SET: Final = "memory"
_HOST_SET: Final = "host"


class FabricLayout:
    """The devices of a fabric, as they are published at one time.

    Args:
        inventory: resources of the fabric.
        reports: reports of the nodes by node. Only nodes with a report and without a problem get devices.
        rules: the operator's choices.
        attachments: everything that is attached, for whomever. Devices of this pool stay published, because the
            scheduler knows which claims have them. What others hold is not published: claims of the controller,
            and other clusters.

    Attributes:
        inventory, attachments: see above.
        pool_name: name of the pool.
        problems: why hosts have no node although they should, for people.
    """

    def __init__(
        self,
        inventory: FabricInventory,
        reports: Mapping[str, dra.NodeReport],
        rules: OfferRules,
        attachments: Sequence[FabricAttachment] = (),
    ) -> None:
        self.inventory = inventory
        self.attachments = attachments
        self._reports = reports
        self._rules = rules
        self.pool_name = rules.pool or _make_label("fabric", inventory.fabric)
        self._others = [each for each in attachments if each.identity.pool != self.pool_name]
        matches = match_hosts(inventory.hosts, reports, rules.hosts)
        self.problems = matches.problems
        self._matched = matches.nodes
        ready = {node for node, report in reports.items() if not report.problem}
        self._nodes = {host: node for host, node in matches.nodes.items() if node in ready}
        self._offers = list_offers(inventory, rules)
        self._parts = [] if rules.whole_domains else list_shared_parts(inventory, rules)
        self._labels = make_labels(dict.fromkeys(each.key for each in (*self._offers, *self._parts)))
        self._sets = make_labels(
            [(_MEMORY_SET, each.id) for each in inventory.domains]
            + [(_HOST_SET, each.id) for each in inventory.hosts]
        )
        self._by_name = {self._labels[each.key]: each for each in (*self._parts, *self._offers)}
        self._available = {
            each.id: compute_available(each, self.pool_name, self._by_name) for each in inventory.domains
        }

    def find_offer(self, device: str) -> FabricOffer | None:
        """Return the offer of a device in any of the pools; None if the fabric does not have it.

        Args:
            device: name of the device.
        """
        return self._by_name.get(device)

    def find_host(self, node: str) -> Host | None:
        """Return the host of a node, the first one if it has several; None if it has none.

        Args:
            node: name of the node.
        """
        return next((each for each in self.inventory.hosts if self._matched.get(each.id) == node), None)

    def list_hosts(self, node: str) -> list[Host]:
        """Return the hosts of a node that can use devices now; empty for a node that has reported a problem.

        Args:
            node: name of the node.
        """
        return [each for each in self.inventory.hosts if self._nodes.get(each.id) == node]

    def list_nodes(self) -> list[str]:
        """Return the nodes that have a host and can use devices now, in order."""
        return sorted(set(self._nodes.values()))

    def list_accelerators(self) -> dict[str, Accelerator]:
        """Return the accelerators by the names of their devices, in order."""
        sources = [(name, self._by_name[name].source) for name in sorted(self._by_name)]
        return {name: source for name, source in sources if isinstance(source, Accelerator)}

    def count_attachments(self, host: Host) -> int:
        """Return how many attachments a host can have at the same time.

        Args:
            host: the host.
        """
        return count_attachments(host, self._rules)

    def find_node(self, host: str) -> str:
        """Return the node of a host, also of one that gets no devices; "" if it is unknown.

        Args:
            host: ID of the host.
        """
        return self._matched.get(host, "")

    def find_any_node(self, device: str) -> str:
        """Return a node that can use a device, also one that gets no devices now; "" if there is none.

        Args:
            device: name of the device.
        """
        offer = self.find_offer(device)
        if offer is not None and offer.host is not None:
            return self.find_node(offer.host.id)
        return min(self._matched.values(), default="")

    def build_pool(self) -> dra.Pool:
        """Return the pool for an API server that drops nothing."""
        return dra.Pool(
            name=self.pool_name,
            devices=self._make_devices(self._offers, counted=True),
            counter_sets=self._make_counter_sets(),
            per_device_node_selection=True,
        )

    def select_safe_without(self, dropped: Collection[str]) -> dra.Pool:
        """Return a pool whose devices cannot overlap, for an API server that drops fields.

        - Without counters, each domain is divided among all hosts, whether they have a node or not: one part of
          one size for each host. A domain as a whole needs no counters.
        - Without the nodes of single devices, each domain is divided into parts of one size for all hosts. The
          attachments of hosts are not counted.
        - Without binding conditions, the devices have none: the SDK attaches after the allocation. Devices for
          several nodes are omitted, because their allocation would not name a node.

        Args:
            dropped: names of the dropped fields.
        """
        waits = not {"bindingConditions", "bindsToNode"} & set(dropped)
        if "perDeviceNodeSelection" in dropped:
            return self._build_shared_pool() if waits else dra.Pool(name=self.pool_name, all_nodes=True)
        counted = not {"consumesCounters", "sharedCounters"} & set(dropped)
        offers = self._offers if counted else self._divide_among_hosts()
        return dra.Pool(
            name=self.pool_name,
            devices=self._make_devices(
                (each for each in offers if waits or each.host is not None), counted=counted, waits=waits
            ),
            counter_sets=self._make_counter_sets() if counted else (),
            per_device_node_selection=True,
        )

    def _divide_among_hosts(self) -> list[FabricOffer]:
        """Return one part of each domain for each host, and everything that consumes no counters."""
        left = {each.id: self._count_left(each) for each in self.inventory.hosts}
        parts = [each for each in self._offers if each.host is None]
        for domain in self.inventory.domains:
            firsts = [each for each in self._offers if each.source == domain and each.host and not each.number]
            size, count = self._choose_part(domain, [each.mebibytes for each in firsts], len(left))
            for offer in [each for each in firsts if each.mebibytes == size][:count]:
                if offer.host is not None and left[offer.host.id]:
                    left[offer.host.id] -= 1
                    parts.append(offer)
        return parts

    def _build_shared_pool(self) -> dra.Pool:
        """Return the pool with one selection of nodes: parts of one size, and everything for several hosts."""
        nodes = select_nodes(list(self._nodes.values()))
        if not nodes:
            return dra.Pool(name=self.pool_name, all_nodes=True)
        offers = [each for each in self._offers if each.host is None]
        for domain in self.inventory.domains:
            parts = [each for each in self._parts if each.source == domain]
            size, count = self._choose_part(
                domain, [each.mebibytes for each in parts], len(self.inventory.hosts)
            )
            offers += [each for each in parts if each.mebibytes == size][:count]
        return dra.Pool(
            name=self.pool_name, devices=self._make_devices(offers, counted=False, selected=False), **nodes
        )

    def _choose_part(self, domain: MemoryDomain, sizes: Collection[int], hosts: int) -> tuple[int, int]:
        """Return the largest size that fits once for each host, else the smallest, and how often it fits."""
        available = self._available[domain.id]
        fitting = [each for each in sizes if each * hosts <= available]
        size = max(fitting, default=min(sizes, default=0))
        return size, available // size if size else 0

    def _make_devices(
        self, offers: Iterable[FabricOffer], *, counted: bool, waits: bool = True, selected: bool = True
    ) -> list[dra.Device]:
        devices = []
        for offer in offers:
            nodes = self._find_nodes(offer)
            selection = {"node_name": nodes[0]} if offer.host and nodes else select_nodes(nodes)
            if not selection or self._is_used_up(offer):
                continue
            name = self._labels[offer.key]
            devices.append(
                make_device(
                    offer,
                    name,
                    available=self._available.get(offer.source.id, 0),
                    consumes=self._consume(offer) if counted else (),
                    nodes=selection if selected else {},
                    taints=make_taints(offer, name, nodes, self._reports),
                    waits=waits,
                )
            )
        return devices

    def _is_used_up(self, offer: FabricOffer) -> bool:
        """Return whether others have an accelerator, or leave nothing of a domain that claims could share."""
        domain = offer.source
        if isinstance(domain, Accelerator):
            return self._labels[offer.key] in {each.identity.device for each in self._others}
        if offer.mebibytes or not isinstance(domain, MemoryDomain):
            return False
        return self._available[domain.id] < round_up(domain, domain.minimum)

    def _count_left(self, host: Host) -> int:
        """Return how many attachments of a host others leave."""
        return max(0, self.count_attachments(host) - sum(each.host == host.id for each in self._others))

    def _find_nodes(self, offer: FabricOffer) -> list[str]:
        if offer.host is None:
            return sorted(set(self._nodes.values()))
        return [self._nodes[offer.host.id]] if offer.host.id in self._nodes else []

    def _consume(self, offer: FabricOffer) -> list[dra.CounterConsumption]:
        if offer.host is None:
            return []
        return [
            dra.CounterConsumption(self._sets[_MEMORY_SET, offer.source.id], {MEBIBYTES: offer.mebibytes}),
            dra.CounterConsumption(self._sets[_HOST_SET, offer.host.id], {ATTACHMENTS: 1}),
        ]

    def _make_counter_sets(self) -> list[dra.CounterSet]:
        if self._rules.whole_domains:
            return []
        hosts = [each for each in self.inventory.hosts if each.id in self._nodes]
        return [
            dra.CounterSet(self._sets[_MEMORY_SET, each.id], {MEBIBYTES: self._available[each.id]})
            for each in self.inventory.domains
        ] + [
            dra.CounterSet(self._sets[_HOST_SET, each.id], {ATTACHMENTS: self._count_left(each)})
            for each in hosts
        ]


def _make_label(*key: str) -> str:
    return make_labels([key])[key]
