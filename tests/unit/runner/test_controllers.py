"""The process of a controller driver: leadership, readiness, metrics and its end."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.driver.driver_class import check_class
from dradriver.kube import CLAIMS, LEASES, Client
from dradriver.kube.leader import Leader
from dradriver.model.classic.names import LEASE_ANNOTATION
from dradriver.model.core.lease import Lease, LeaseTiming
from dradriver.runner import launch, load_any, load_driver
from dradriver.runner.controllers import ControllerProcess
from dradriver.runner.leading import LeadingProcess
from tests.unit.classic.shelf import CONTROLLER, Shelf, ShelfDriver, ShelfLab, laboratory
from tests.unit.runner.observed import served
from tests.unit.runner.test_endpoints_metrics import with_unit

PAGE = Path(__file__).parents[3] / "docs/observe.md"
SECTION = PAGE.read_text().partition("## A controller driver")[2].partition("\n## ")[0]
DOCUMENTED = set(re.findall(r"^\| `(dradriver_\w+)", SECTION, re.MULTILINE))


class Ending(ShelfDriver):
    """Notes its end."""

    ended = False

    def shutdown(self) -> None:
        self.ended = True


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[ShelfLab]:
    async with laboratory(tmp_path) as made:
        yield made


@asynccontextmanager
async def leading(lab: ShelfLab, driver: dra.ControllerDriver) -> AsyncIterator[LeadingProcess]:
    """Run the driver as `dradriver run` does, and stop it gracefully."""
    async with await Client.connect(lab.kubeconfig) as client:
        leader = Leader(client, driver.name, "default", f"holder-{id(driver)}", LeaseTiming(15))
        process = LeadingProcess(
            ControllerProcess(
                driver, client.with_guard(leader.limit_write), f"default/{driver.name}", leader.check
            ),
            leader,
        )
        stop = asyncio.Event()
        task = asyncio.create_task(process.run(stop, 30))
        try:
            yield process
        finally:
            stop.set()
            await task


async def holder(lab: ShelfLab) -> str:
    return (await lab.client.get(LEASES, CONTROLLER, "default", into=Lease)).spec.holder_identity


async def test_one_of_two_processes_allocates(lab: ShelfLab, shelf: Shelf) -> None:
    first, second = Ending(shelf), Ending(shelf)
    async with leading(lab, first):
        await lab.create_claim("claim-1", immediate=True)
        claim = await lab.allocated("claim-1")
        async with leading(lab, second) as standby:
            assert standby.readiness == ""
            assert await holder(lab) == f"holder-{id(first)}"
            await lab.create_claim("claim-2", immediate=True)
            await lab.allocated("claim-2")
    assert (first.ended, second.ended) == (True, False)
    record = lab.record(claim)
    assert record is not None
    assert record.metadata.annotations[LEASE_ANNOTATION] == f"default/{CONTROLLER}"


async def test_claims_stay_allocated_at_the_end(lab: ShelfLab, shelf: Shelf) -> None:
    async with leading(lab, Ending(shelf)):
        await lab.create_claim(immediate=True)
        claim = await lab.allocated()
    assert await holder(lab) == ""
    assert shelf.held
    async with leading(lab, Ending(shelf)) as process:
        while process.readiness:
            await asyncio.sleep(0.01)
    assert lab.claim() == claim
    assert len(shelf.log) == 1


async def test_the_lease_is_released_only_after_the_calls_in_flight(lab: ShelfLab, shelf: Shelf) -> None:
    """A plain method cannot be interrupted; the next leader must not deallocate before it has ended."""
    begun, opened = threading.Event(), threading.Event()

    class Blocking(ShelfDriver):
        def allocate(  # type: ignore[override] # a plain method
            self, claims: Sequence[dra.PendingClaim], node: str | None
        ) -> dict[str, dra.ControllerAllocationResult | dra.AllocationError]:
            begun.set()
            opened.wait()
            shelf.log.append(("end", claims[0].uid))
            return {}

    async with await Client.connect(lab.kubeconfig) as client:
        leader = Leader(client, CONTROLLER, "default", "holder", LeaseTiming(15))
        process = LeadingProcess(ControllerProcess(Blocking(shelf), client), leader)
        stop = asyncio.Event()
        task = asyncio.create_task(process.run(stop, 30))
        await lab.create_claim(immediate=True)
        await asyncio.to_thread(begun.wait)
        stop.set()
        while process.readiness == "":
            await asyncio.sleep(0.01)
        assert await holder(lab) == "holder"
        opened.set()
        await task
    assert await holder(lab) == ""
    assert [method for method, _ in shelf.log] == ["end"]


async def test_it_is_ready_when_it_has_read_the_objects(lab: ShelfLab, shelf: Shelf) -> None:
    process = ControllerProcess(ShelfDriver(shelf), lab.client)
    async with served(process) as ask:
        assert await ask.get("/readyz") == (503, "the claims have not been listed yet\n")
        assert await ask.get("/healthz") == (200, "ok\n")
        task = asyncio.create_task(process.run(stop := asyncio.Event()))
        while (await ask.get("/readyz"))[0] != 200:
            await asyncio.sleep(0.01)
        stop.set()
        await task


async def test_metrics_count_allocations_deallocations_and_failures(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)) as process, served(process) as ask:
        await lab.create_claim(immediate=True)
        await lab.allocated()
        shelf.broken["deallocate"] = OSError("no link")
        await lab.client.delete(CLAIMS, "claim-1", "default")
        await lab.event("DeallocationFailed")
        assert await ask.sample("dradriver_classic_pending", kind="claims") == 1
        shelf.broken.clear()
        await lab.gone()
        assert await ask.sample("dradriver_classic_allocations_total", driver=CONTROLLER) == 1
        assert await ask.sample("dradriver_classic_deallocations_total") == 1
        assert (await ask.sample("dradriver_classic_failures_total", operation="deallocate") or 0) >= 1
        count = "dradriver_classic_operation_duration_seconds_count"
        assert await ask.sample(count, operation="allocate", result="ok") == 1


async def test_all_metrics_are_documented(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)) as process, served(process) as ask:
        families = (await ask.families()).values()
    shown = {with_unit(each.name, each.type) for each in families if each.name.startswith("dradriver_")}
    assert {name for name in shown if not name.endswith("_created")} - {"dradriver_build_info"} == DOCUMENTED


def test_a_controller_driver_is_found_by_its_class_and_is_no_node_driver() -> None:
    name = f"{ShelfDriver.__module__}:ShelfDriver"
    assert load_any(name).name == CONTROLLER
    with pytest.raises(dra.DriverError, match="must be a node driver, but is a controller driver"):
        load_driver(name)


@pytest.mark.parametrize(
    ("option", "kinds"), [("node_name", "node"), ("owner", "pool"), ("plugins_dir", "node")]
)
def test_options_of_other_drivers_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, kinds: str
) -> None:
    assert launch(ShelfDriver, {option: "x"}) == 2
    flag = "--" + option.replace("_", "-")
    message = f"Error: {flag}: is only for {kinds} drivers, ShelfDriver is a controller driver\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("attribute", "value", "rule"),
    [
        ("class_configs", (dict,), "must be a subclass of dradriver.Config"),
        ("claim_configs", "text", "must be a tuple of classes"),
        ("check_nodes_seconds", 0, "must be a number of seconds above 0"),
        ("check_allocations_seconds", "1", "must be a number of seconds above 0"),
    ],
)
def test_wrong_attributes_of_the_class_are_reported(attribute: str, value: object, rule: str) -> None:
    wrong = type("Wrong", (ShelfDriver,), {attribute: value})
    with pytest.raises(dra.DriverError, match=rf"Wrong\.{attribute}: .*{rule}"):
        check_class(wrong)


def test_missing_methods_of_the_class_are_reported() -> None:
    class Bare(dra.ControllerDriver):
        name = CONTROLLER

    with pytest.raises(
        dra.DriverError, match=r"does not implement allocate\(\), deallocate\(\), unsuitable_nodes"
    ):
        check_class(Bare)


@pytest.fixture
async def shelf() -> Shelf:
    return Shelf()
