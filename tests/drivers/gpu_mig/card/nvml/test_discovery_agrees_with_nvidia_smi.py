"""On a machine with GPUs, NVML and `nvidia-smi` report the same values. The tests change nothing."""

import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from dradriver_gpu_mig.card.simulator import CATALOG
from tests.drivers.gpu_mig import nvidia_smi
from tests.drivers.gpu_mig.card_suite import Reading, ReadingSuite
from tests.drivers.gpu_mig.read_cards import NOTHING_TO_READ

MIB = 1 << 20


@pytest.fixture(scope="module")
def reading() -> Reading:
    done = subprocess.run(
        [sys.executable, "-m", "tests.drivers.gpu_mig.read_cards"], capture_output=True, check=False
    )
    if done.returncode == NOTHING_TO_READ:
        pytest.skip(f"no GPU of NVIDIA to read here: {done.stderr.decode().strip()}")
    assert done.returncode == 0, done.stderr.decode()
    found = msgspec.json.decode(done.stdout, type=Reading)
    if not found.gpus:
        pytest.skip("the driver of NVIDIA is here, but no GPU")
    return found


def query(*arguments: str) -> str:
    code, text = nvidia_smi.run_nvidia_smi(*arguments)
    if code:
        pytest.skip(f"nvidia-smi {' '.join(arguments)} can't be asked (exit code {code}): {text.strip()}")
    return text


class TestReading(ReadingSuite):
    pass


def test_gpus_are_those_that_nvidia_smi_lists(reading: Reading) -> None:
    text = query(f"--query-gpu={nvidia_smi.GPU_FIELDS}", "--format=csv,noheader,nounits")
    printed = {row["uuid"]: row for row in nvidia_smi.parse_gpus(text)}
    assert set(printed) == {gpu.uuid for gpu in reading.gpus}
    for gpu in reading.gpus:
        row = printed[gpu.uuid]
        assert int(row["index"]) == gpu.index
        assert row["pci.bus_id"].lower().endswith(gpu.pci_address)
        assert row["name"] == gpu.name
        assert row["driver_version"] == reading.system.driver_version
        assert int(row["memory.total"]) == gpu.memory // MIB
        assert row["compute_cap"] == "{}.{}".format(*gpu.compute_capability)
        mode = {True: "Enabled", False: "Disabled"}
        modes = ("[N/A]", "[N/A]") if gpu.mig is None else (mode[gpu.mig.current], mode[gpu.mig.pending])
        assert (row["mig.mode.current"], row["mig.mode.pending"]) == modes


def test_profiles_are_those_that_nvidia_smi_lists(reading: Reading) -> None:
    """Only of GPUs on which MIG is on: it lists no others."""
    printed = nvidia_smi.parse_profiles(query("mig", "-lgip"))
    if not printed:
        pytest.skip("nvidia-smi lists no profiles: MIG is off on every GPU")
    for gpu, profiles in zip(reading.gpus, reading.profiles, strict=True):
        rows = {profile: row for (index, profile), row in printed.items() if index == gpu.index}
        assert not rows or set(rows) == {profile.id for profile in profiles}
        for profile in profiles if rows else ():
            row, engines = rows[profile.id], profile.engines
            assert row == nvidia_smi.SmiProfile(
                profile.name,
                profile.max_instances,
                row.gib,
                (
                    engines.multiprocessors,
                    engines.copy_engines,
                    engines.decoders,
                    engines.encoders,
                    engines.jpeg_engines,
                    engines.ofa_engines,
                ),
            )
            assert abs(row.gib * 1024 - profile.memory // MIB) <= Decimal("5.12")  # two digits of GiB


def test_placements_are_those_that_nvidia_smi_lists(reading: Reading) -> None:
    printed = nvidia_smi.parse_placements(query("mig", "-lgipp"))
    if not printed:
        pytest.skip("nvidia-smi lists no placements: MIG is off on every GPU")
    for gpu, profiles in zip(reading.gpus, reading.profiles, strict=True):
        for profile in profiles:
            places = [(place.start, place.size) for place in profile.placements]
            assert printed.get((gpu.index, profile.id), places) == places


def test_a_known_card_is_the_one_that_is_simulated(reading: Reading) -> None:
    """The catalog against hardware: a card of it that is here offers what the catalog says."""
    models = {model.name: model for model in CATALOG.values()}
    known_models = [
        (models[gpu.name], profiles)
        for gpu, profiles in zip(reading.gpus, reading.profiles, strict=True)
        if gpu.name in models and profiles
    ]
    if not known_models:
        pytest.skip("no GPU here is one of the simulator's catalog")
    for model, profiles in known_models:
        simulated = {profile.id: profile.to_profile() for profile in model.profiles}
        for profile in profiles:
            if profile.id in simulated:
                expected = simulated[profile.id]
                # The memory differs by some MiB between versions of the driver.
                assert replace(profile, memory=0) == replace(expected, memory=0)
                assert abs(profile.memory - expected.memory) <= 512 * MIB


# What is printed by real cards, cut down: the tests above are skipped where there is none.
LGIP = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.6gb        14     4/4        5.81       No     14     1     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.6gb+me     21     1/1        5.81       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+
|   0  MIG 4g.24gb        0     1/1        23.44      No     56     4     0   |
|                                                             4     1     1   |
+-----------------------------------------------------------------------------+
"""
LGIPP = """\
GPU  0 Profile ID 14 Placements: {0,1,2,3}:1
GPU  0 Profile ID  0 Placement : {0}:4
"""


def test_nvidia_smis_tables_are_understood() -> None:
    a30 = {profile.id: profile for profile in CATALOG["a30"].profiles}
    printed = nvidia_smi.parse_profiles(LGIP)
    assert list(printed) == [(0, 14), (0, 21), (0, 0)]
    for (_, number), row in printed.items():
        assert (row.name, row.max_instances, row.engines[0]) == (
            a30[number].name,
            a30[number].max_instances,
            a30[number].multiprocessors,
        )
    assert printed[0, 0].engines == (56, 4, 4, 0, 1, 1)
    assert nvidia_smi.parse_placements(LGIPP) == {(0, 14): [(0, 1), (1, 1), (2, 1), (3, 1)], (0, 0): [(0, 4)]}
