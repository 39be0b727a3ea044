"""Every placement that the driver publishes, for every model and mode, is one that NVIDIA documents.

The tables below are typed from `nvidia-smi mig -lgipp` and from the figures of NVIDIA's MIG User Guide
(Supported MIG Profiles), not made from `cards.toml`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from dradriver import Device
from dradriver_gpu_mig.card import Placement
from dradriver_gpu_mig.card.simulator import CATALOG, GpuModel
from tests.drivers.gpu_mig.nodes import GpuHarness

SEVEN_SLICES = """
19 {0,1,2,3,4,5,6}:1
20 {0,1,2,3,4,5,6}:1
15 {0,2,4,6}:2
14 {0,2,4}:2
9 {0,4}:4
5 {0}:4
0 {0}:8
"""
FOUR_SLICES_A30 = """
14 {0,1,2,3}:1
21 {0,1,2,3}:1
5 {0,2}:2
6 {0,2}:2
0 {0}:4
"""
FOUR_SLICES_RTX_PRO = """
14 {0,3,6,9}:3
21 {0,3,6,9}:3
47 {0,3,6,9}:3
65 {0,3,6,9}:3
67 {0,3,6,9}:3
5 {0,6}:6
35 {0,6}:6
64 {0,6}:6
66 {0,6}:6
0 {0}:12
32 {0}:12
"""
RTX_PRO = (
    "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb+me.all 1g.24gb-me "
    "2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me 4g.96gb 4g.96gb+gfx"
)
GUIDE = {
    "a30": (FOUR_SLICES_A30, "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb"),
    "a100-40": (SEVEN_SLICES, "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
    "a100-80": (SEVEN_SLICES, "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    "h100-80": (SEVEN_SLICES, "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    "h100-nvl": (SEVEN_SLICES, "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
    "h100-96": (SEVEN_SLICES, "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
    "gh200-96": (SEVEN_SLICES, "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
    "gh200-144": (SEVEN_SLICES, "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb"),
    "h200-141": (SEVEN_SLICES, "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
    "b200-180": (SEVEN_SLICES, "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
    "gb200-186": (SEVEN_SLICES, "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb"),
    "rtx-pro-6000": (FOUR_SLICES_RTX_PRO, RTX_PRO),
    "rtx-pro-6000-workstation": (FOUR_SLICES_RTX_PRO, RTX_PRO),
    "t4": ("", ""),
}


def placements_by_name(model: str) -> Mapping[str, tuple[int, list[Placement]]]:
    """The guide's profiles of a model: the ID and the placements by name."""
    table, names = GUIDE[model]
    rows = re.findall(r"(\d+) \{([\d,]+)\}:(\d+)", table)
    return {
        name: (int(number), [Placement(int(start), int(size)) for start in starts.split(",")])
        for name, (number, starts, size) in zip(names.split(), rows, strict=True)
    }


def published(devices: Mapping[str, Device], index: int, model: str) -> dict[str, set[int]]:
    """The starts of the published placements of one card by profile name; checks the memory slices, too."""
    gpu = f"gpu-0000-{7 + 8 * index:02x}-00-0"
    found: dict[str, set[int]] = {}
    for name, device in devices.items():
        if not name.startswith(f"{gpu}-mig-"):
            continue
        profile = device.attributes["profile"].string or ""
        start = int(name.rpartition("-")[2])
        found.setdefault(profile, set()).add(start)
        (placement,) = (p for p in placements_by_name(model)[profile][1] if p.start == start)
        slices = {
            int(counter.removeprefix("memory-slice-"))
            for each in device.consumes_counters
            for counter in each.counters
            if counter.startswith("memory-slice-")
        }
        if device.consumes_counters:
            assert slices == set(range(start, start + placement.size)), name
    return found


def test_the_catalog_has_the_models_of_the_tables() -> None:
    assert set(CATALOG) == set(GUIDE)


def test_the_dynamic_mode_publishes_exactly_the_placements_of_nvidia(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, *GUIDE) as node:
        devices = node.devices
        for index, model in enumerate(GUIDE):
            expected = {
                name: {p.start for p in places} for name, (_, places) in placements_by_name(model).items()
            }
            assert published(devices, index, model) == expected, model


def test_the_static_mode_publishes_an_instance_at_its_placement(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, *GUIDE, settings="mode: static") as node:
        gpus = {index: gpu.uuid for index, gpu in enumerate(node.cards.gpus())}
        created = {}
        for index, model in enumerate(GUIDE):
            for name, (number, places) in placements_by_name(model).items():
                if name.startswith("1g") and not name.endswith(("+me", "+me.all")):
                    instance = node.cards.create_gpu_instance(gpus[index], number, places[-1])
                    node.cards.create_compute_instance(gpus[index], instance)
                    created[index] = (name, places[-1].start)
                    break
        devices = node.devices
        for index, (name, start) in created.items():
            assert published(devices, index, list(GUIDE)[index]) == {name: {start}}


def test_the_mode_whole_publishes_no_placement(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, *GUIDE, settings="mode: whole", mig=False) as node:
        assert {device.attributes["type"].string for device in node.pool.devices} == {"gpu"}
        assert len(node.pool.devices) == len(GUIDE)


@pytest.mark.parametrize(("key", "model"), CATALOG.items())
def test_the_ids_sizes_and_limits_of_a_model_agree(key: str, model: GpuModel) -> None:
    assert {p.name: p.id for p in model.profiles} == {n: i for n, (i, _) in placements_by_name(key).items()}
    for profile in model.profiles:
        fits = min(len(profile.starts), model.compute_slices // profile.slices)
        only_one = profile.name.endswith(("+me", "+me.all"))
        assert profile.max_instances == (1 if only_one else fits), profile.name
        assert all(start + profile.size <= model.memory_slices for start in profile.starts), profile.name
        assert profile.max_instances * profile.memory <= model.memory, profile.name
        slice_memory = model.memory / model.memory_slices
        assert 0.8 < profile.memory / (profile.size * slice_memory) <= 1.0, profile.name
        gigabytes = int(profile.name.partition("g.")[2].partition("gb")[0])
        assert abs(profile.size * slice_memory / 1024 - gigabytes) <= 4, profile.name
        largest = max(model.profiles, key=lambda each: each.slices)
        assert profile.multiprocessors <= largest.multiprocessors
        assert profile.copy_engines <= largest.copy_engines
    assert len({profile.slot for profile in model.profiles}) == len(model.profiles)


@pytest.mark.parametrize("model", CATALOG.values(), ids=CATALOG)
def test_each_model_names_its_source(model: GpuModel) -> None:
    assert "MIG User Guide" in model.source or "nvidia-smi mig -lgip" in model.source
