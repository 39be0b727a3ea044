"""Which nodes get which devices, and the taints of devices that are not healthy."""

import dradriver as dra
from dradriver_fabric_cxl.fabric import Accelerator, AttachmentIdentity, FabricHealth, MemoryChunk
from dradriver_fabric_cxl.names import ATTACH_FAILED, ATTACHED, DRIVER, NOT_READY, READY, SYSTEM_UUID, TIMED_OUT
from dradriver_fabric_cxl.offer import FabricLayout, OfferRules
from tests.drivers.fabric_cxl.offer.fabrics import (
    OK,
    POOL,
    make_domain,
    make_host,
    make_layout,
    mebibytes_of,
    node_of,
)

ONE_SIZE = OfferRules(sizes=(1024,))
HOSTS = [make_host(0), make_host(1)]
GPU = Accelerator("gpu-0", "0x10de", "0x2331", OK)


def names(layout: FabricLayout) -> list[str]:
    return [each.name for each in layout.build_pool().devices]


def taints(pool: dra.Pool) -> dict[str, list[str]]:
    return {each.name: [str(taint) for taint in each.taints] for each in pool.devices}


def test_a_device_describes_its_memory_and_waits_for_both_halves() -> None:
    domain = make_domain("CXL1-Domain_2", switch="switch-1")
    device = make_layout([domain], HOSTS[:1], rules=ONE_SIZE).build_pool().devices[0]
    assert device.name == "cxl1-domain-2-host-0-1gi-0"
    assert device.node_name == node_of(HOSTS[0])
    assert {name: device.attribute(name) for name in device.attributes} == {
        "type": "memory",
        "domain": "CXL1-Domain_2",
        "switch": "switch-1",
    }
    assert mebibytes_of(device) == 1024
    assert device.binding_conditions == (ATTACHED, READY)
    assert device.binding_failure_conditions == (ATTACH_FAILED, NOT_READY, TIMED_OUT)


def test_four_sizes_are_offered_from_the_domains_minimum() -> None:
    layout = make_layout([make_domain(minimum=300, increment=256)], [make_host(attachments=1)])
    sizes = [mebibytes_of(each) for each in layout.build_pool().devices]
    assert sizes == [512, 768, 1280, 2560]


def test_sizes_of_the_settings_are_rounded_up_and_left_out_where_they_do_not_fit() -> None:
    layout = make_layout([make_domain()], [make_host(attachments=1)], rules=OfferRules(sizes=(8192, 1, 300)))
    assert [mebibytes_of(each) for each in layout.build_pool().devices] == [256, 512]


def test_ids_that_look_the_same_get_different_names() -> None:
    hosts = [make_host(0, 1), make_host(1, 1)]
    layout = make_layout([make_domain("Pool"), make_domain("pool")], hosts, rules=ONE_SIZE)
    assert len(set(names(layout))) == 4
    assert all(each.startswith("pool-host-") for each in names(layout))


def test_a_long_name_is_shortened_and_stays_unique() -> None:
    domains = [make_domain("d" * 70 + end) for end in "ab"]
    found = names(make_layout(domains, [make_host(attachments=1)], rules=ONE_SIZE))
    assert len(set(found)) == 2
    assert all(len(each) == 63 for each in found)


def test_a_node_without_a_report_or_with_a_problem_gets_no_devices() -> None:
    reports = {"node-uuid-0": dra.NodeReport(problem="no window", values={SYSTEM_UUID: "uuid-0"})}
    layout = make_layout([make_domain()], HOSTS, [GPU], reports=reports)
    assert names(layout) == []
    assert layout.find_node("host-0") == "node-uuid-0"


def test_the_settings_name_the_node_of_a_host_before_its_uuid() -> None:
    reports = {name: dra.NodeReport(values={SYSTEM_UUID: "uuid-1"}) for name in ("blue", "red")}
    layout = make_layout(
        [make_domain()], HOSTS, reports=reports, rules=OfferRules(hosts={"host-1": "red"}, sizes=(1024,))
    )
    assert {each.node_name for each in layout.build_pool().devices} == {"red"}


def test_uuids_are_compared_without_case() -> None:
    hosts = [make_host(0, system="abc-1")]
    layout = make_layout([make_domain()], hosts, reports={"n": dra.NodeReport(values={SYSTEM_UUID: "ABC-1"})})
    assert layout.find_host("n") == hosts[0]
    assert not layout.problems


def test_two_nodes_with_one_uuid_get_nothing_and_are_named() -> None:
    reports = {name: dra.NodeReport(values={SYSTEM_UUID: "uuid-0"}) for name in ("blue", "red")}
    layout = make_layout([make_domain()], HOSTS, reports=reports)
    assert names(layout) == []
    assert [each for each in layout.problems if "host-0" in each and "blue, red" in each]


def test_a_node_without_a_host_and_an_unknown_host_of_the_settings_are_reported() -> None:
    reports = {"red": dra.NodeReport(values={SYSTEM_UUID: "uuid-9"})}
    problems = make_layout([], HOSTS, reports=reports, rules=OfferRules(hosts={"host-9": "blue"})).problems
    assert [each.partition(":")[0] for each in problems] == ["host host-9", "node red"]


def test_an_accelerator_is_one_device_for_the_nodes_of_all_hosts() -> None:
    device = make_layout([], HOSTS, [GPU]).build_pool().devices[0]
    assert (device.name, device.binds_to_node, device.consumes_counters) == ("gpu-0", True, ())
    assert {name: device.attribute(name) for name in device.attributes} == {
        "type": "accelerator",
        "vendor": "0x10de",
        "device": "0x2331",
    }
    assert device.node_selector is not None
    matched = [
        host.id
        for host in [*HOSTS, make_host(2)]
        if device.node_selector.matches(node_of(host), {"kubernetes.io/hostname": node_of(host)})
    ]
    assert matched == ["host-0", "host-1"]


def test_a_whole_domain_is_shared_in_steps_of_the_manager() -> None:
    rules = OfferRules(whole_domains=True)
    domain = make_domain(mebibytes=4096, minimum=300, increment=256, foreign=1000)
    pool = make_layout([domain], HOSTS, rules=rules).build_pool()
    assert [each.name for each in pool.devices] == ["pool-a"]
    device = pool.devices[0]
    assert (device.allow_multiple_allocations, device.binds_to_node) == (True, True)
    policy = device.capacity["memory"].request_policy
    assert policy is not None
    assert policy.valid_range is not None
    span = policy.valid_range
    assert [str(each) for each in (policy.default, span.min, span.max, span.step)] == [
        "512Mi",
        "512Mi",
        "3Gi",
        "256Mi",
    ]


def test_a_domain_that_others_use_up_is_not_offered_as_a_whole() -> None:
    rules = OfferRules(whole_domains=True)
    assert names(make_layout([make_domain(mebibytes=4096, foreign=4000)], HOSTS, rules=rules)) == []


def test_health_of_the_fabric_taints_the_devices_concerned() -> None:
    domains = [make_domain("a", health=FabricHealth.WARNING), make_domain("b")]
    hosts = [make_host(0, 1), make_host(1, 1, health=FabricHealth.CRITICAL)]
    gpu = Accelerator("gpu-0", "", "", FabricHealth.CRITICAL)
    assert taints(make_layout(domains, hosts, [gpu], ONE_SIZE).build_pool()) == {
        "gpu-0": [f"{DRIVER}/fabric-health=critical:NoExecute"],
        "a-host-0-1gi-0": [f"{DRIVER}/fabric-health=warning:NoSchedule"],
        "a-host-1-1gi-0": [
            f"{DRIVER}/fabric-health=warning:NoSchedule",
            f"{DRIVER}/host-health=critical:NoExecute",
        ],
        "b-host-0-1gi-0": [],
        "b-host-1-1gi-0": [f"{DRIVER}/host-health=critical:NoExecute"],
    }


def test_a_node_can_only_taint_devices_that_it_can_use() -> None:
    hosts = [make_host(0, 1), make_host(1, 1)]
    unhealthy = dict.fromkeys(("pool-a-host-0-1gi-0", "pool-a-host-1-1gi-0", "gpu-0"), "memdev mem0 is gone!")
    reports = {
        "node-uuid-0": dra.NodeReport(unhealthy=unhealthy, values={SYSTEM_UUID: "uuid-0"}),
        "node-uuid-1": dra.NodeReport(values={SYSTEM_UUID: "uuid-1"}),
    }
    expected = [f"{DRIVER}/unhealthy=memdev-mem0-is-gone:NoExecute"]
    layout = make_layout([make_domain()], hosts, [GPU], ONE_SIZE, reports)
    assert taints(layout.build_pool()) == {
        "gpu-0": expected,
        "pool-a-host-0-1gi-0": expected,
        "pool-a-host-1-1gi-0": [],
    }


def test_a_failed_share_does_not_taint_the_whole_domain() -> None:
    reports = {"node-uuid-0": dra.NodeReport(unhealthy={"pool-a": "gone"}, values={SYSTEM_UUID: "uuid-0"})}
    layout = make_layout([make_domain()], HOSTS[:1], rules=OfferRules(whole_domains=True), reports=reports)
    assert taints(layout.build_pool()) == {"pool-a": []}


def test_without_counters_each_host_has_its_own_part_of_a_domain() -> None:
    layout = make_layout([make_domain()], HOSTS, [GPU])
    pool = layout.select_safe_without({"consumesCounters", "sharedCounters"})
    assert [each.name for each in pool.devices] == ["gpu-0", "pool-a-host-0-2gi-0", "pool-a-host-1-2gi-0"]


def test_without_nodes_of_devices_the_pool_selects_the_nodes() -> None:
    pool = make_layout([make_domain()], HOSTS, [GPU]).select_safe_without({"perDeviceNodeSelection"})
    assert [each.name for each in pool.devices] == ["gpu-0", "pool-a-2gi-0", "pool-a-2gi-1"]
    assert all(each.binds_to_node for each in pool.devices)
    assert pool.node_selector is not None


def test_without_binding_conditions_only_devices_for_one_node_are_left() -> None:
    layout = make_layout([make_domain()], HOSTS[:1], [GPU], ONE_SIZE)
    pool = layout.select_safe_without({"bindingConditions", "bindsToNode"})
    assert [each.name for each in pool.devices] == ["pool-a-host-0-1gi-0", "pool-a-host-0-1gi-1"]
    assert not any(each.binding_conditions or each.binding_failure_conditions for each in pool.devices)
    assert all(each.consumes_counters for each in pool.devices)


def test_without_counters_a_host_has_no_more_parts_than_attachments() -> None:
    layout = make_layout([make_domain(name) for name in "abc"], [make_host(attachments=2)], rules=ONE_SIZE)
    pool = layout.select_safe_without({"sharedCounters"})
    assert [each.name for each in pool.devices] == ["a-host-0-1gi-0", "b-host-0-1gi-0"]


def test_without_nodes_of_devices_there_are_no_more_parts_than_others_leave() -> None:
    layout = make_layout([make_domain(mebibytes=4096, foreign=2000)], HOSTS, rules=ONE_SIZE)
    pool = layout.select_safe_without({"perDeviceNodeSelection"})
    assert [each.name for each in pool.devices] == ["pool-a-1gi-0", "pool-a-1gi-1"]


def test_chunks_of_the_pools_devices_are_available_and_those_of_earlier_settings_are_not() -> None:
    names = ("pool-a-host-0-1gi-0", "pool-a", "pool-a-host-0-3gi-0")
    chunks = tuple(
        MemoryChunk(256 << n, AttachmentIdentity("c", POOL, name, "t")) for n, name in enumerate(names)
    )
    domain = make_domain(mebibytes=4096, chunks=chunks)
    (memory,) = [
        each
        for each in make_layout([domain], HOSTS[:1], rules=ONE_SIZE).build_pool().counter_sets
        if each.name == "pool-a"
    ]
    assert str(memory.counters["mebibytes"].value) == str(4096 - 512 - 1024)
    (whole,) = make_layout([domain], HOSTS[:1], rules=OfferRules(whole_domains=True)).build_pool().devices
    assert mebibytes_of(whole) == 4096 - 256 - 1024
