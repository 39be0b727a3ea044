"""Settings of a node, and parameters of claims: sharing, MPS, compute mode and error messages."""

from pathlib import Path

import pytest

from dradriver import DraError, UsageError
from dradriver.testing import list_config_errors
from dradriver_gpu_mig import GpuConfig, GpuDriver
from dradriver_gpu_mig.card import ComputeMode, NotSupportedError, TimeSlice
from dradriver_gpu_mig.configs import GpuSharing, TimeSlicingConfig
from dradriver_gpu_mig.prepare.sharing import read_settings as read_settings_of_claim
from dradriver_gpu_mig.settings import Mode, read_settings
from tests.drivers.gpu_mig.nodes import GpuHarness

WHOLE = "gpu-0000-07-00-0"

SETTINGS = """
mode: dynamic
destroySeconds: 5
nodes:
  - names: ["old-*", "attic"]
    mode: static
  - names: ["*-render"]
    mode: whole
"""


@pytest.mark.parametrize(
    ("node", "mode"), [("new-1", "dynamic"), ("old-1", "static"), ("attic", "static"), ("b-render", "whole")]
)
def test_a_node_has_the_settings_of_the_first_exception_that_names_it(node: str, mode: str) -> None:
    settings = read_settings(SETTINGS, node)
    assert settings.mode is Mode(mode)
    assert settings.destroy_seconds == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mode: [", "invalid YAML"),
        ("dynamic", "must be a mapping"),
        ("mode: dynamically", "Invalid enum value 'dynamically' - at `$.mode`"),
        ("mps: {cgroup: sys/fs}", "matching regex '^/' - at `$.mps.cgroup`"),
        ("mps: {pipeDirectory: /run/mps}", "unknown field `pipeDirectory` - at `$.mps`"),
        ("consumableShares: some", "Invalid enum value 'some' - at `$.consumableShares`"),
        ("consumableShares: 0", "Expected `int` >= 1 - at `$.consumableShares`"),
        ("modes: dynamic", "unknown field `modes`"),
        ("recoverSeconds: -1", "Expected `float` >= 0.0 - at `$.recoverSeconds`"),
        ("nodes: {old: 1}", "nodes: must be a list"),
        ("nodes: [{mode: static}]", "nodes[0]: must be a mapping with `names`"),
        ("nodes: [{names: [a], mode: x}]", "nodes[0]: Invalid enum value 'x'"),
    ],
)
def test_an_error_in_the_settings_is_reported_at_the_start_on_every_node(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        GpuDriver(text)
    assert str(refusal.value).startswith("$GPU_MIG_SETTINGS: ")
    assert words in str(refusal.value)


# --- opaque parameters -----------------------------------------------------------------------------

HEAD = {"apiVersion": "resource.nvidia.com/v1beta1"}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kind": "GpuConfig", "color": "red"}, ["color: GpuConfig has no such field"]),
        ({"kind": "GpuConfig", "computeMode": "Alone"}, ["computeMode: "]),
        ({"kind": "GpuConfig", "sharing": {"strategy": "Turns"}}, ["sharing.strategy: "]),
        (
            {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "timeSlicingConfig": {}}},
            ["sharing: timeSlicingConfig: must not be set with the strategy MPS"],
        ),
        (
            {"kind": "MigDeviceConfig", "sharing": {"strategy": "MPS", "mpsConfig": {
                "defaultActiveThreadPercentage": 0, "defaultPinnedDeviceMemoryLimit": "lots",
            }}},
            ["sharing.mpsConfig.defaultActiveThreadPercentage: "],
        ),
        ({"kind": "MigDeviceConfig", "computeMode": "Default"}, ["computeMode: MigDeviceConfig has no such"]),
        *(
            (
                {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": {
                    "defaultPinnedDeviceMemoryLimit": limit,
                }}},
                ["defaultPinnedDeviceMemoryLimit: must be at least 1Mi"],
            )
            for limit in ("1Ki", "-1Gi", 1024)
        ),
        (
            {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": {
                "defaultPerDevicePinnedMemoryLimit": {"0": "1Gi", "1": "1Ki"},
            }}},
            ["defaultPerDevicePinnedMemoryLimit: 1: must be at least 1Mi"],
        ),
        (
            {"kind": "GpuConfig", "computeMode": "Prohibited", "sharing": {"strategy": "MPS"}},
            ["computeMode: must not be Prohibited with the strategy MPS"],
        ),
        ({"kind": "GpuConfig", "sharing": {}}, ["sharing.strategy: "]),
        (
            {"kind": "MigDeviceConfig", "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {}}},
            ["sharing.timeSlicingConfig: "],
        ),
    ],
)  # fmt: skip
def test_errors_in_parameters_are_reported_before_a_pod_waits(
    parameters: dict[str, object], words: list[str]
) -> None:
    told = [str(each) for each in list_config_errors(GpuDriver, {**HEAD, **parameters})]
    for word in words:
        assert any(word in each for each in told), told


@pytest.mark.parametrize(
    ("kind", "sharing"),
    [
        ("GpuConfig", {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}),
        ("GpuConfig", {"strategy": "TimeSlicing", "timeSlicingConfig": {}}),
        ("GpuConfig", {"strategy": "TimeSlicing"}),
        ("GpuConfig", {"strategy": "MPS"}),
        ("GpuConfig", {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}),
        ("GpuConfig", {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "10Gi"}}),
        ("GpuConfig", {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": 1 << 30}}),
        ("GpuConfig", {"strategy": "MPS", "mpsConfig": {"multiUser": True}}),
        ("GpuConfig", {"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"0": "1Gi"}}}),
        ("MigDeviceConfig", {"strategy": "MPS", "mpsConfig": {}}),
        ("MigDeviceConfig", {"strategy": "TimeSlicing"}),
        ("MigDeviceConfig", None),
    ],
)
def test_claims_for_nvidias_driver_are_accepted(kind: str, sharing: object) -> None:
    assert list_config_errors(GpuDriver, {**HEAD, "kind": kind, "sharing": sharing}) == []


def test_time_slicing_without_an_interval_means_the_default_interval() -> None:
    config = GpuConfig(sharing=GpuSharing(strategy="TimeSlicing"))
    assert read_settings_of_claim(WHOLE, config, shared=False) == (None, TimeSlice.DEFAULT)


# --- sharing ---------------------------------------------------------------------------------------


def test_settings_of_a_gpu_last_as_long_as_the_claim(tmp_path: Path) -> None:
    sharing = GpuSharing(strategy="TimeSlicing", time_slicing_config=TimeSlicingConfig(interval="Long"))
    with GpuHarness(tmp_path, settings="mode: whole", mig=False) as node:
        node.cards.set_compute_mode(node.gpu, ComputeMode.PROHIBITED)
        wanted = GpuConfig(sharing=sharing, compute_mode="ExclusiveProcess")
        claim = node.allocate_blindly(("node-1", WHOLE), config=wanted)
        node.prepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.EXCLUSIVE_PROCESS
        assert node.cards.time_slice(node.gpu) is TimeSlice.LONG
        node.restart()
        node.unprepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.PROHIBITED
        assert node.cards.time_slice(node.gpu) is TimeSlice.DEFAULT


def test_settings_that_were_changed_when_a_process_died_are_restored(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="mode: whole", mig=False) as node:
        claim = node.allocate_blindly(("node-1", WHOLE), config=GpuConfig(compute_mode="Prohibited"))

        def die(call: str, moment: str) -> None:
            if (call, moment) == ("set_compute_mode", "after"):
                raise RuntimeError("killed")

        node.driver_hardware.hook = die
        with pytest.raises(DraError, match="killed"):
            node.prepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.PROHIBITED
        node.restart()
        node.prepare(claim)
        node.unprepare(claim)
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT


def test_an_unsupported_setting_is_reported_and_does_not_block_unprepare(tmp_path: Path) -> None:
    def refuse(call: str, _moment: str) -> None:
        if call == "set_time_slice":
            raise NotSupportedError("no program for it", call, 3)

    sharing = GpuSharing(strategy="TimeSlicing", time_slicing_config=TimeSlicingConfig())
    with GpuHarness(tmp_path, settings="mode: whole", mig=False) as node:
        claim = node.allocate_blindly(("node-1", WHOLE), config=GpuConfig(sharing=sharing))
        node.driver_hardware.hook = refuse
        with pytest.raises(DraError, match="no program for it"):
            node.prepare(claim)
        node.unprepare(claim)
        assert node.records() == []
