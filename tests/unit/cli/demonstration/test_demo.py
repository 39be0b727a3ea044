"""The demo tells only what has happened, and says what has not."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dradriver.cli.demonstration import story as stories
from dradriver.cli.demonstration.shows import SHOWS
from dradriver.cli.demonstration.story import Story
from dradriver.cli.supervisor import DriverProcess, Supervisor
from dradriver.cli.up import driver_processes
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


async def tell(story: Story) -> None:
    await story.node_is_there()
    await story.devices_are_published()
    await story.a_card_appears()
    await story.objects_are_created()
    await story.pods_run()
    await story.partitions_are_drawn()
    await story.the_card_is_pulled()
    await story.pods_are_deleted()
    story.nothing_is_left()


LOOPS = pytest.param(
    "loop",
    marks=pytest.mark.skipif(
        len(FREE_LOOPS) < 2, reason="fewer than two free loop devices, and no right to make some"
    ),
)


@pytest.mark.parametrize("entry", [LOOPS, "gpu-mig", "fpga"])
async def test_every_line_names_what_the_server_has_answered_before(
    cluster: EmbeddedCluster, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPGA_SETTINGS", "removedSeconds: 2\nsimulator: {speed: 0.001}")
    client = RecordingClient(cluster.client())
    show = SHOWS[entry]
    (process,) = (replace(each, simulate=show.simulate) for each in driver_processes(cluster, [entry]))
    headings: list[str] = []
    texts: list[str] = []

    def say(heading: str, text: str) -> None:
        headings.append(heading)
        texts.append(text)
        for name, version in re.findall(r"(\S+) \(resourceVersion (\d+)\)", text):
            assert (name, version) in client.seen, text
        for path in re.findall(r"CDI spec (/\S+\.json)", text):
            assert Path(path).exists(), text

    async with Supervisor([process], pytest.fail):
        await tell(Story(client, show, process, say))
    hotplug = ("plug", "pull", "taint", "evict", "gone", "wait", "ready")
    assert [each for each in dict.fromkeys(filter(None, headings)) if each not in hotplug] == [
        "node", "publish", "create", "claim", "allocate", "prepare", "run", "delete", "unprepare",
    ]  # fmt: skip
    assert headings.count("allocate") == 2
    assert any("memory-slice" in text for text in texts) is bool(entry == "gpu-mig")
    assert (set(hotplug) <= set(headings)) is bool(entry == "fpga")


async def test_what_did_not_happen_in_time_is_said_with_the_drivers_last_words(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stories, "_START_SECONDS", 0.2)
    process = DriverProcess("loop", "node-1", cluster.node_kubeconfig("node-1"), cluster.node_dir("node-1"))
    process.log.write_text("no such card\n")
    story = Story(cluster.client(), SHOWS["loop"], process, lambda heading, text: None)
    with pytest.raises(
        DraError, match=r"the publication of devices did not happen within 0\.2 s.*no such card"
    ):
        await story.devices_are_published()


def test_a_cdi_spec_that_stayed_behind_is_a_failure(tmp_path: Path) -> None:
    from dradriver.node.state.database import connect

    (tmp_path / "cdi").mkdir()
    data = tmp_path / "plugins" / SHOWS["loop"].driver
    data.mkdir(parents=True)
    connect(data / "state.db")[0].close()
    process = DriverProcess("loop", "node-1", tmp_path / "kubeconfig", tmp_path)
    said: list[str] = []
    story = Story(None, SHOWS["loop"], process, lambda heading, text: said.append(heading))  # type: ignore[arg-type]
    story.nothing_is_left()
    assert said == ["unprepare"]
    (tmp_path / "cdi/left.json").touch()
    with pytest.raises(DraError, match=r"left behind: CDI specs \['left.json'\]"):
        story.nothing_is_left()
