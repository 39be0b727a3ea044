"""The contract of `Fabric` over Redfish: on the emulator, and on a real manager that the environment names.

For a real manager: FABRIC_CXL_URL, FABRIC_CXL_USER_FILE, FABRIC_CXL_PASSWORD_FILE, and FABRIC_CXL_CA for a CA
that the system does not know. The tests make and remove small chunks there.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver_fabric_cxl.emulator import EmulatorSettings
from dradriver_fabric_cxl.fabric import Fabric, FabricHealth, FabricPace
from dradriver_fabric_cxl.fabric.redfish import CredentialFiles, RedfishSettings, open_redfish
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault
from tests.drivers.fabric_cxl.emulator_process import EmulatorProcess, ManagerFiles
from tests.drivers.fabric_cxl.fabric_suite import PACE, FabricSuite, FaultSuite, ForgetfulSuite, ImpatientTime

REQUESTS: Final[Mapping[FabricCall, Mapping[str, str]]] = {
    FabricCall.READ: {"method": "GET", "path": "/redfish/v1/Fabrics/CXL/Connections"},
    FabricCall.CREATE_CHUNK: {"method": "POST", "path": ".*/MemoryChunks"},
    FabricCall.CREATE_CONNECTION: {"method": "POST", "path": ".*/Connections"},
    FabricCall.DELETE: {"method": "DELETE", "path": ".*/(MemoryChunks|Connections)/[^/]+"},
}

FAULTS: Final[Mapping[FabricFault, Mapping[str, Any]]] = {
    FabricFault.BUSY: {"status": 503, "retry_after": "0"},
    FabricFault.CONFLICT: {"status": 409},
    FabricFault.NO_CAPACITY: {"status": 507},
    FabricFault.REFUSED: {"status": 400},
    FabricFault.REQUEST_LOST: {"status": 502},
    FabricFault.ANSWER_LOST: {"lose_answer": True},
    FabricFault.TASK_FAILS: {"task_state": "Exception"},
    FabricFault.TASK_LOST: {"task_state": "lost"},
    FabricFault.TASK_HANGS: {"task_state": "never ends"},
}


@dataclass
class EmulatorBench:
    emulator: EmulatorProcess
    fabric: Fabric
    impatient: Fabric

    async def fail(self, call: FabricCall, fault: FabricFault, times: int = 1) -> None:
        await self.emulator.control("POST", "faults", {**REQUESTS[call], **FAULTS[fault], "times": times})

    async def set_health(self, domain: str, health: FabricHealth) -> None:
        chassis, _, name = domain.partition("-domain-")
        path = f"/redfish/v1/Chassis/{chassis}/MemoryDomains/domain-{name}"
        await self.emulator.control("POST", "health", {"path": path, "health": health.value})


def run_emulator(folder: Path, *options: str) -> Iterator[EmulatorProcess]:
    emulator = EmulatorProcess(ManagerFiles(folder), options)
    emulator.start()
    yield emulator
    emulator.kill()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    yield from run_emulator(tmp_path_factory.mktemp("m"))


@pytest.fixture(scope="module", params=["task", "created", "ok", "no-content"])
def answering(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatorProcess]:
    """An emulator for each form of answer that managers give."""
    yield from run_emulator(tmp_path_factory.mktemp("m"), "--answers", request.param)


@pytest.fixture(scope="module", params=["task", "created", "no-content"])
def forgetting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatorProcess]:
    yield from run_emulator(tmp_path_factory.mktemp("m"), "--no-names", "--answers", request.param)


async def open_bench(emulator: EmulatorProcess) -> AsyncIterator[EmulatorBench]:
    files = emulator.files
    async with (
        open_redfish(files.settings(emulator.url, PACE)) as fabric,
        open_redfish(files.settings(emulator.url, ImpatientTime().pace())) as impatient,
    ):
        yield EmulatorBench(emulator, fabric, impatient)
        await emulator.control("DELETE", "faults")


class TestFabric(FabricSuite):
    @pytest.fixture
    async def bench(self, answering: EmulatorProcess) -> AsyncIterator[EmulatorBench]:
        async for bench in open_bench(answering):
            yield bench

    async def test_each_host_tells_how_many_attachments_it_can_have(self, bench: EmulatorBench) -> None:
        hosts = (await bench.fabric.inventory()).hosts
        assert {host.max_attachments for host in hosts} == {EmulatorSettings().host_attachments}


class TestFaults(FaultSuite):
    @pytest.fixture
    async def bench(self, emulator: EmulatorProcess) -> AsyncIterator[EmulatorBench]:
        async for bench in open_bench(emulator):
            yield bench


class TestForgetfulManager(ForgetfulSuite):
    @pytest.fixture
    async def forgetful(self, forgetting: EmulatorProcess) -> AsyncIterator[Fabric]:
        async with open_redfish(forgetting.files.settings(forgetting.url, PACE)) as fabric:
            yield fabric


@dataclass
class RealBench:
    fabric: Fabric


@pytest.mark.skipif("FABRIC_CXL_URL" not in os.environ, reason="FABRIC_CXL_URL names no manager")
class TestRealManager(FabricSuite):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[RealBench]:
        names = {
            key: os.environ.get(f"FABRIC_CXL_{key}", "") for key in ("URL", "USER_FILE", "PASSWORD_FILE", "CA")
        }
        settings = RedfishSettings(
            names["URL"],
            CredentialFiles(Path(names["USER_FILE"]), Path(names["PASSWORD_FILE"])),
            Path(names["CA"]) if names["CA"] else None,
            pace=FabricPace(),
        )
        async with open_redfish(settings) as fabric:
            yield RealBench(fabric)
