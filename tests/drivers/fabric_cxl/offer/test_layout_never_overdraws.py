"""Laws of the pool: names, order, and devices that fit into the fabric together."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

import dradriver as dra
from dradriver.publish.layout import order_devices, refusals
from dradriver_fabric_cxl.fabric import FabricInventory
from dradriver_fabric_cxl.offer import FabricLayout, OfferRules
from tests.drivers.fabric_cxl.offer.fabrics import (
    find_overdraw,
    inventories,
    mebibytes_of,
    node_of,
    report_hosts,
    rules,
)

COUNTERS = frozenset({"consumesCounters", "sharedCounters"})
law = settings(max_examples=50)
DROPPED = (
    frozenset[str](),
    COUNTERS,
    frozenset({"perDeviceNodeSelection"}),
    COUNTERS | {"perDeviceNodeSelection"},
    frozenset({"bindingConditions", "bindsToNode"}),
    COUNTERS | {"bindingConditions"},
    COUNTERS | {"bindingConditions", "perDeviceNodeSelection"},
)


def build(inventory: FabricInventory, rules: OfferRules) -> FabricLayout:
    return FabricLayout(inventory, report_hosts(inventory.hosts), rules)


def is_part(device: dra.Device) -> bool:
    return "memory" in device.capacity and not device.allow_multiple_allocations


@law
@given(inventories(), rules(), st.sampled_from(DROPPED))
def test_every_pool_can_be_published(
    inventory: FabricInventory, rules: OfferRules, dropped: frozenset[str]
) -> None:
    layout = build(inventory, rules)
    assert refusals(layout.select_safe_without(dropped), None) == []
    assert refusals(layout.build_pool(), None) == []


@law
@given(inventories(), rules(), st.randoms(use_true_random=False))
def test_devices_that_the_counters_allow_fit_into_the_fabric(
    inventory: FabricInventory, rules: OfferRules, random: st.DataObject
) -> None:
    pool = build(inventory, replace(rules, whole_domains=False)).build_pool()
    left = {(each.name, name): c.value.nano for each in pool.counter_sets for name, c in each.counters.items()}
    devices = [each for each in pool.devices if is_part(each)]
    random.shuffle(devices)  # type: ignore[attr-defined]
    used = []
    for device in devices:
        taken = {
            (each.counter_set, name): c.value.nano
            for each in device.consumes_counters
            for name, c in each.counters.items()
        }
        assert len(taken) == 2
        if all(left[key] >= amount for key, amount in taken.items()):
            used.append(device)
            left |= {key: left[key] - amount for key, amount in taken.items()}
    assert find_overdraw(inventory, used, rules.default_attachments) == []


@law
@given(inventories(), rules(), st.sampled_from(DROPPED))
def test_without_counters_all_devices_fit_at_once(
    inventory: FabricInventory, rules: OfferRules, dropped: frozenset[str]
) -> None:
    layout = build(inventory, replace(rules, whole_domains=False))
    pool = layout.select_safe_without(dropped | COUNTERS)
    assert not pool.counter_sets
    assert not any(each.consumes_counters for each in pool.devices)
    used = [each for each in pool.devices if is_part(each)]
    assert find_overdraw(inventory, used, rules.default_attachments) == []


@law
@given(inventories(), rules(), st.sampled_from(DROPPED))
def test_a_name_means_the_same_part_of_the_fabric_in_every_pool(
    inventory: FabricInventory, rules: OfferRules, dropped: frozenset[str]
) -> None:
    layout = build(inventory, rules)
    for pool in (layout.build_pool(), layout.select_safe_without(dropped)):
        for device in pool.devices:
            offer = layout.find_offer(device.name)
            assert offer is not None
            assert device.attribute("domain") == (offer.source.id[:64] if offer.is_memory else None)
            assert not is_part(device) or offer.mebibytes == mebibytes_of(device)
            assert device.node_name in {None, node_of(offer.host) if offer.host else None}


@law
@given(inventories(), rules(), st.data())
def test_names_do_not_depend_on_nodes_and_chunks(
    inventory: FabricInventory, rules: OfferRules, data: st.DataObject
) -> None:
    before = build(inventory, rules)
    order = data.draw(st.permutations(inventory.domains))
    changed = replace(inventory, domains=tuple(replace(each, chunks=()) for each in order))
    hosts = data.draw(st.lists(st.sampled_from(inventory.hosts), unique=True)) if inventory.hosts else []
    after = FabricLayout(changed, report_hosts(hosts), rules)
    for device in after.build_pool().devices:
        old, new = before.find_offer(device.name), after.find_offer(device.name)
        assert old is not None
        assert new is not None
        assert (old.source.id, old.host, old.mebibytes, old.number) == (
            new.source.id,
            new.host,
            new.mebibytes,
            new.number,
        )


@law
@given(inventories(), rules())
def test_of_one_domain_smaller_devices_are_published_first(
    inventory: FabricInventory, rules: OfferRules
) -> None:
    pool = build(inventory, rules).build_pool()
    for domain, count in Counter(each.attribute("domain") for each in pool.devices).items():
        for devices in (pool.devices, order_devices(pool)):
            sizes = [
                (each.node_name, mebibytes_of(each))
                for each in devices
                if is_part(each) and each.attribute("domain") == domain
            ]
            assert len(sizes) in {0, count}
            for node in {name for name, _ in sizes}:
                of_node = [size for name, size in sizes if name == node]
                assert of_node == sorted(of_node)


@law
@given(inventories(), rules())
def test_all_that_fits_is_offered_in_the_smallest_size(inventory: FabricInventory, rules: OfferRules) -> None:
    rules = replace(rules, whole_domains=False, sizes=())
    pool = build(inventory, rules).build_pool()
    for domain in inventory.domains:
        smallest = -(-domain.minimum // domain.increment) * domain.increment
        for host in inventory.hosts:
            limit = rules.default_attachments if host.max_attachments is None else host.max_attachments
            found = [
                each
                for each in pool.devices
                if is_part(each) and each.node_name == node_of(host)
                if str(each.attribute("domain")) == domain.id[:64] and mebibytes_of(each) == smallest
            ]
            assert len(found) == (min(limit, domain.mebibytes // smallest) if domain.makes_chunks else 0)
