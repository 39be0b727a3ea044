"""The demonstration prints only events that have happened, and reports an event that does not happen."""

import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dradriver.cli.demonstration import story as stories
from dradriver.cli.demonstration.processes import driver_processes_of
from dradriver.cli.demonstration.shows import SHOWS
from dradriver.cli.demonstration.story import Story
from dradriver.cli.embedded_cluster import simulation_folder
from dradriver.cli.supervision import DriverProcess, Supervisor
from dradriver.cluster import EmbeddedCluster
from dradriver.errors import DraError
from dradriver.kube import Client, Listing, WatchEvent
from dradriver.model.encoding.codec import builtins
from dradriver_loop.hardware import find_loops, make_loops

make_loops(free=2)
FREE_LOOPS = [loop for loop in find_loops() if not loop.backed]


class RecordingClient(Client):
    """Remembers which version of which object the API server has answered."""

    def __init__(self, client: Client) -> None:
        super().__init__(client._transport, client.namespace)
        self.seen: set[tuple[str, str]] = set()

    def _remember(self, item: Any) -> None:
        meta = builtins(item)["metadata"]
        name = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        self.seen.add((name, meta["resourceVersion"]))

    async def list(self, *arguments: Any, **options: Any) -> Listing[Any]:
        listing: Listing[Any] = await super().list(*arguments, **options)
        for item in listing.items:
            self._remember(item)
        return listing

    async def create(self, *arguments: Any, **options: Any) -> Any:
        created: Any = await super().create(*arguments, **options)
        self._remember(created)
        return created

    async def watch(self, *arguments: Any, **options: Any) -> AsyncIterator[WatchEvent[Any]]:  # type: ignore[override]
        async for event in super().watch(*arguments, **options):
            if event.object is not None:
                self._remember(event.object)
            yield event


async def run_story(story: Story) -> None:
    await story.wait_for_node()
    await story.wait_for_devices()
    await story.plug_card()
    await story.create_objects()
    await story.follow_pods()
    await story.draw_partitions()
    await story.pull_card()
    await story.delete_pods()
    story.check_nothing_left()


LOOPS = pytest.param(
    "loop",
    marks=pytest.mark.skipif(
        len(FREE_LOOPS) < 2, reason="fewer than two free loop devices, and no right to make some"
    ),
)


async def run_and_check(cluster: EmbeddedCluster, entry: str) -> tuple[list[str], list[str]]:
    """Return the headings and texts of a demonstration, in which each named object has existed."""
    client = RecordingClient(cluster.client())
    show = SHOWS[entry]
    processes = driver_processes_of(cluster, show)
    headings: list[str] = []
    texts: list[str] = []

    def report(heading: str, text: str) -> None:
        headings.append(heading)
        texts.append(text)
        for name, version in re.findall(r"(\S+) \(resourceVersion (\d+)\)", text):
            assert (name, version) in client.seen, text
        for path in re.findall(r"CDI spec (/\S+\.json)", text):
            assert Path(path).exists(), text

    async with Supervisor(processes, lambda message: pytest.fail(str(message))):
        await run_story(
            Story(client, show, [each for each in processes if each.node], report, simulation_folder(cluster))
        )
    return headings, texts


STEPS = ["node", "publish", "create", "claim", "allocate", "prepare", "run", "delete", "unprepare"]


@pytest.mark.parametrize("entry", [LOOPS, "gpu-mig", "fpga"])
async def test_each_line_names_objects_that_the_server_has_returned(
    cluster: EmbeddedCluster, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPGA_SETTINGS", "removedSeconds: 2\nsimulator: {speed: 0.001}")
    headings, texts = await run_and_check(cluster, entry)
    hotplug = ("plug", "pull", "taint", "evict", "gone", "wait", "ready")
    assert [each for each in dict.fromkeys(filter(None, headings)) if each not in hotplug] == STEPS
    assert headings.count("allocate") == 2
    assert any("memory-slice" in text for text in texts) is bool(entry == "gpu-mig")
    assert (set(hotplug) <= set(headings)) is bool(entry == "fpga")


async def test_a_device_that_fails_is_tainted_and_the_pod_gets_one_on_another_node() -> None:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        async with EmbeddedCluster(Path(folder), nodes=2, runtime="process") as cluster:
            headings, texts = await run_and_check(cluster, "fabric-cxl")
    steps = list(zip(headings, texts, strict=True))
    second = steps[next(n for n, (heading, _) in enumerate(steps) if heading == "fault") :]
    until_run = [heading for heading, _ in second if heading and heading not in {"delete", "unprepare"}]
    first_try = ["fault", "create", "claim", "allocate", "wait", "fail", "taint"]
    assert until_run == [*first_try, "allocate", "wait", "ready", "prepare", "run"]
    failed, used = (text for heading, text in second if heading == "allocate")
    assert re.findall(r"host-\d", failed) != re.findall(r"host-\d", used)


async def test_an_event_that_does_not_happen_is_an_error_with_the_drivers_log(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stories, "_START_SECONDS", 0.2)
    process = DriverProcess("loop", "node-1", cluster.node_kubeconfig("node-1"), cluster.node_dir("node-1"))
    process.log.write_text("no such card\n")
    story = Story(cluster.client(), SHOWS["loop"], [process], lambda heading, text: None)
    with pytest.raises(DraError, match=r"publication of devices did not happen within 0\.2 s.*no such card"):
        await story.wait_for_devices()


def test_a_cdi_spec_that_is_left_is_an_error(tmp_path: Path) -> None:
    from dradriver.node.state.database import connect

    (tmp_path / "cdi").mkdir()
    data = tmp_path / "plugins" / SHOWS["loop"].driver
    data.mkdir(parents=True)
    connect(data / "state.db")[0].close()
    process = DriverProcess("loop", "node-1", tmp_path / "kubeconfig", tmp_path)
    headings: list[str] = []
    story = Story(None, SHOWS["loop"], [process], lambda heading, text: headings.append(heading))  # type: ignore[arg-type]
    story.check_nothing_left()
    assert headings == ["unprepare"]
    (tmp_path / "cdi/left.json").touch()
    with pytest.raises(DraError, match=r"unprepare left CDI specs \['left.json'\]"):
        story.check_nothing_left()
