"""From cards to the pool: KEP-4815's table and example, other cards, modes of a node, and fallbacks."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver import Device, DriverContext, Quantity
from dradriver.testing import device_request
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import Placement, Profile
from dradriver_gpu_mig.card.simulator import CATALOG, SimulatedGpus
from dradriver_gpu_mig.offer import list_offers
from dradriver_gpu_mig.settings import MigSwitching, Mode
from tests.drivers.gpu_mig.mig_devices import list_mig_devices, read_cards
from tests.drivers.gpu_mig.nodes import DRIVER, GpuHarness

# Memory, memory slices, multiprocessors, copy engines, decoders, encoders, JPEG and OFA engines.
KEP_4815 = {
    "7g.40gb": ("40192Mi", 8, 98, 7, 5, 0, 1, 1),
    "4g.20gb": ("19968Mi", 4, 56, 4, 2, 0, 0, 0),
    "3g.20gb": ("19968Mi", 4, 42, 3, 2, 0, 0, 0),
    "2g.10gb": ("9856Mi", 2, 28, 2, 1, 0, 0, 0),
    "1g.10gb": ("9856Mi", 2, 14, 1, 1, 0, 0, 0),
    "1g.5gb+me": ("4864Mi", 1, 14, 1, 1, 0, 1, 1),
    "1g.5gb": ("4864Mi", 1, 14, 1, 0, 0, 0, 0),
}
KEP_4815_PLACES = {
    "7g.40gb": 1, "4g.20gb": 1, "3g.20gb": 2, "2g.10gb": 3, "1g.10gb": 4, "1g.5gb": 7, "1g.5gb+me": 7,
}  # fmt: skip
ENGINES = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines")


def profile(device: Device) -> str:
    return str(device.attribute("profile"))


def counters(device: Device) -> dict[str, Quantity]:
    return {name: c.value for each in device.consumes_counters for name, c in each.counters.items()}


def test_an_a100_has_the_profiles_of_the_keps_table(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        devices = node.pool.devices
    found = {
        profile(device): (
            str(device.capacity["memory"].value),
            sum(name.startswith("memory-slice-") for name in counters(device)),
            *(int(device.capacity[name].value) for name in ENGINES),
        )
        for device in devices
    }
    assert found == KEP_4815
    assert {name: [profile(d) for d in devices].count(name) for name in found} == KEP_4815_PLACES


def test_a_devices_counters_are_its_capacities_and_its_memory_slices(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        device = node.devices["gpu-0000-07-00-0-mig-3g-20gb-4"]
    slices = {f"memory-slice-{number}": Quantity(1) for number in (4, 5, 6, 7)}
    capacities = {"memory": Quantity("19968Mi"), "multiprocessors": Quantity(42)}
    engines = {"copy-engines": Quantity(3), "decoders": Quantity(2)}
    assert counters(device) == {**capacities, **engines, **slices}
    assert [each.counter_set for each in device.consumes_counters] == ["gpu-0000-07-00-0-counter-set"]


def test_two_gpus_have_a_counter_set_each_of_all_that_they_have(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "a100-40", "a100-40") as node:
        pool = node.pool
    assert len(pool.counter_sets) == 2
    assert len(pool.devices) == 2 * sum(KEP_4815_PLACES.values())
    for counter_set in pool.counter_sets:
        amounts = {name: str(counter.value) for name, counter in counter_set.counters.items()}
        assert amounts == {
            "memory": "40Gi", "multiprocessors": "98", "copy-engines": "7", "decoders": "5", "encoders": "0",
            "jpeg-engines": "1", "ofa-engines": "1", **{f"memory-slice-{number}": "1" for number in range(8)},
        }  # fmt: skip


def test_attributes_have_the_ecosystems_names(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        device, gpu = node.devices["gpu-0000-07-00-0-mig-1g-5gb-0"], node.cards.gpus()[0]
    told = {name: attribute.value for name, attribute in device.attributes.items()}
    assert told == {
        "type": "mig",
        "profile": "1g.5gb",
        "parentUUID": gpu.uuid,
        "productName": "NVIDIA A100-SXM4-40GB",
        "brand": gpu.brand,
        "architecture": "Ampere",
        "cudaComputeCapability": "8.0.0",
        "driverVersion": "580.82.7",
        "cudaDriverVersion": "13.0.0",
        "resource.kubernetes.io/pciBusID": gpu.pci_address,
        "resource.kubernetes.io/pcieRoot": gpu.pcie_root,
        "resource.kubernetes.io/numaNode": gpu.numa_node,
    }


def test_a_request_without_a_profile_gets_the_smallest(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "a100-40", "a100-40") as node:
        (result,) = node.allocate_profile().results
    assert result.device == "gpu-0000-07-00-0-mig-1g-5gb-0"


def test_the_keps_claim_gets_devices_of_one_gpu_that_fit_together(tmp_path: Path) -> None:
    wanted = ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]
    with GpuHarness(tmp_path, "a100-40", "a100-40") as node:
        requests = [
            device_request(DRIVER, f"device.attributes['{DRIVER}'].profile == '{name}'", name=f"mig-{number}")
            for number, name in enumerate(wanted)
        ]
        claim = node.allocate(*requests)
        node.prepare(claim)
        first, _ = node.instances().values()
    assert [result.device.removeprefix("gpu-0000-07-00-0-mig-") for result in claim.results] == [
        "1g-5gb-0", "1g-5gb-1", "2g-10gb-2", "3g-20gb-4",
    ]  # fmt: skip
    assert sorted(first) == sorted([("1g.5gb", 0, 1), ("1g.5gb", 1, 1), ("2g.10gb", 2, 1), ("3g.20gb", 4, 1)])


def test_an_a30_has_four_memory_slices(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "a30") as node:
        (counter_set,) = node.pool.counter_sets
        whole = [device for device in node.pool.devices if profile(device).startswith("4g")]
    slices = {name for name in counter_set.counters if name.startswith("memory-slice-")}
    assert slices == {f"memory-slice-{number}" for number in range(4)}
    assert [slices <= counters(device).keys() for device in whole] == [True]


def test_a_node_may_have_more_than_eight_gpus(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, *["h100-80"] * 12) as node:
        slices = node.slices()
        sets = [each.name for item in slices for each in item.spec.shared_counters]
        devices = [device.name for item in slices for device in item.spec.devices]
    assert len(set(sets)) == 12
    assert len(set(devices)) == len(devices) == 12 * 25


def test_names_do_not_depend_on_the_order_of_gpus(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "a100-40", "a100-40") as node:
        before = {device.attribute("parentUUID"): name for name, device in node.devices.items()}
        with node.store.change() as state:
            state.gpus[0].lost = True
        node.restart()  # the second GPU is the first one now
        after = {device.attribute("parentUUID"): name for name, device in node.devices.items()}
    assert after.items() <= before.items()
    assert len(after) == 1


def test_every_placement_has_a_unique_name_that_creates_its_profile(tmp_path: Path) -> None:
    """The RTX PRO 6000 has `1g.24gb+me` and `1g.24gb-me`, and a name of Kubernetes has no plus."""
    with GpuHarness(tmp_path, "rtx-pro-6000") as node:
        devices = node.devices
        profiles = node.cards.profiles(node.gpu)
        assert len(devices) == sum(len(profile.placements) for profile in profiles)
        for name in ("1g.24gb+me", "1g.24gb-me", "2g.48gb-me", "2g.48gb+me.all"):
            chosen = next(device for device in devices.values() if profile(device) == name)
            claim = node.allocate_device(chosen.name)
            node.prepare(claim)
            assert [each[0] for each in node.first_gpu_instances] == [name]
            node.unprepare(claim)


def test_names_of_profiles_without_a_minus_are_as_they_always_were() -> None:
    for key, model in CATALOG.items():
        hardware = SimulatedGpus([key])
        hardware.open()
        (card,) = read_cards(hardware).values()
        for offer in list_offers(card, Mode.DYNAMIC, MigSwitching.NEVER):
            if offer.profile is not None and offer.placement is not None and "-" not in offer.profile.name:
                label = offer.profile.name.replace(".", "-").replace("+", "-")
                assert offer.name == f"gpu-0000-07-00-0-mig-{label}-{offer.placement.start}", model.name


@given(
    st.lists(
        st.builds("{}g.{}gb{}".format, st.integers(1, 9), st.integers(1, 999), st.text("+-.aem", max_size=6))
        | st.text("+-.1gb M\u00e4", min_size=1, max_size=8),
        min_size=1,
        max_size=12,
        unique=True,
    )
)
def test_no_two_profiles_share_a_name(profiles: list[str]) -> None:
    hardware = SimulatedGpus(["h100-80"])
    hardware.open()
    (card,) = read_cards(hardware).values()
    one = card.profiles[0]
    renamed = tuple(replace(one, id=number, name=name) for number, name in enumerate(profiles))
    found = list_offers(replace(card, profiles=renamed), Mode.DYNAMIC, MigSwitching.NEVER)
    assert len({offer.name for offer in found}) == len(found) == len(profiles) * len(one.placements)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", offer.name) for offer in found)


async def test_profiles_with_the_same_name_are_not_offered_and_the_others_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Ambiguous(SimulatedGpus):
        def profiles(self, gpu: str) -> tuple[Profile, ...]:
            return tuple(
                replace(each, name="1g.5gb") if each.id == 15 else each for each in super().profiles(gpu)
            )

    driver = GpuDriver("mode: dynamic", Ambiguous())
    driver.set_context(DriverContext("node-1", tmp_path))
    await driver.discover()
    (pool,) = await driver.discover()
    await driver.shutdown()
    assert {profile(device) for device in pool.devices} == set(KEP_4815) - {"1g.5gb", "1g.10gb"}
    (told,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert told.endswith(" 1g-5gb")
    assert "15, 19" in told


@pytest.mark.parametrize("code", [2, 3, 999])
def test_only_the_profile_with_unreadable_placements_is_not_offered(tmp_path: Path, code: int) -> None:
    with GpuHarness(tmp_path) as node:
        node.cards.fail_placements(node.gpu, 15, code)
        assert {profile(device) for device in node.devices.values()} == set(KEP_4815) - {"1g.10gb"}
        node.prepare(node.allocate_profile("1g.5gb"))
        assert [each[0] for each in node.first_gpu_instances] == ["1g.5gb"]


# --- the modes of a node ---------------------------------------------------------------------------


def names(node: GpuHarness) -> list[str]:
    return [name.removeprefix("gpu-0000-07-00-0") or "whole" for name in node.devices]


def test_a_static_node_offers_the_present_layout(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="mode: static") as node:
        node.create_foreign_instance("3g.20gb", 4)
        node.create_foreign_instance("1g.5gb", 0)
        assert names(node) == ["-mig-1g-5gb-0", "-mig-3g-20gb-4"]
        assert not node.pool.counter_sets
        there = {each.uuid for each in list_mig_devices(node.cards, node.gpu)}
        assert {device.attribute("uuid") for device in node.pool.devices} == there


def test_half_an_instance_is_not_offered(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="mode: static") as node:
        node.cards.create_gpu_instance(node.gpu, 9, Placement(4, 4))
        assert names(node) == []


def test_a_changed_layout_is_offered_and_destroyed_devices_are_not(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="mode: static") as node:
        node.create_foreign_instance("3g.20gb", 0)
        claim = node.allocate_profile("3g.20gb")
        (mig,) = list_mig_devices(node.cards, node.gpu)
        node.cards.destroy_compute_instance(node.gpu, mig.gpu_instance, mig.compute_instance)
        node.cards.destroy_gpu_instance(node.gpu, mig.gpu_instance)
        node.create_foreign_instance("2g.10gb", 2)
        assert names(node) == ["-mig-2g-10gb-2"]
        with pytest.raises(Exception, match="no longer exists"):
            node.prepare(claim)


@pytest.mark.parametrize("mode", ["static", "dynamic", "whole"])
def test_a_gpu_with_mig_off_is_offered_as_a_whole_in_every_mode(tmp_path: Path, mode: str) -> None:
    with GpuHarness(tmp_path, settings=f"mode: {mode}", mig=False) as node:
        assert names(node) == ["whole"]
        (device,) = node.pool.devices
        assert (device.attribute("type"), device.attribute("uuid")) == ("gpu", node.gpu)
        assert str(device.capacity["memory"].value) == "40Gi"
        assert not device.consumes_counters


def test_a_gpu_with_mig_on_is_not_offered_as_a_whole(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="mode: whole") as node:
        assert names(node) == []


def test_groups_are_only_on_gpus_that_offer_more_than_one_mode(tmp_path: Path) -> None:
    settings = "{mode: dynamic, migSwitching: onDemand}"
    with GpuHarness(tmp_path, "a100-40", "h100-80", settings=settings) as node:
        groups = {
            (str(device.attribute("architecture")), str(device.attribute("type"))): tuple(
                group for each in device.consumes_counters for group in each.compatibility_groups
            )
            for device in node.pool.devices
        }
    assert groups == {("Ampere", "mig"): (), ("Hopper", "mig"): ("mig",), ("Hopper", "gpu"): ("whole",)}


# --- what the API server drops ---------------------------------------------------------------------


async def fallback(driver: GpuDriver, *dropped: str) -> list[Device]:
    pools = await driver.fallback(dropped)
    assert pools is not None
    return [device for pool in pools for device in pool.devices]


def test_without_groups_counters_keep_the_modes_apart(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", settings="{mode: dynamic, migSwitching: onDemand}") as node:
        before = node.pool.devices
        found = node._runner.run(fallback(node.driver, "compatibilityGroups"))  # type: ignore[arg-type]
    assert [device.name for device in found] == [device.name for device in before]
    assert [counters(device) for device in found] == [counters(device) for device in before]
    assert not any(each.compatibility_groups for device in found for each in device.consumes_counters)


def test_without_counters_no_two_devices_overlap_and_those_in_use_stay(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_profile("3g.20gb")
        node.prepare(claim)
        node.discover()
        found = node._runner.run(fallback(node.driver, "consumesCounters", "sharedCounters"))  # type: ignore[arg-type]
        counted = node.devices
    assert claim.results[0].device in {device.name for device in found}
    assert len(found) == 4
    taken = [name for device in found for name in counters(counted[device.name]) if "slice" in name]
    assert len(taken) == len(set(taken)) == 7
    assert not any(device.consumes_counters for device in found)
