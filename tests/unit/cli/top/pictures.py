"""Hand-made pictures of clusters, and the golden screens that are drawn from them.

`python -m tests.unit.cli.top.pictures` writes the golden screens again. Look at the difference before you keep
it.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from dradriver.cli.top.items import ItemFilter, ItemIndex, ItemKey
from dradriver.cli.top.layout import Picture, draw_everything, draw_screen
from dradriver.cli.top.spans import plain_text
from dradriver.cli.top.state import ScreenState, keep_selection
from dradriver.overview.values import (
    Card,
    CardDevice,
    Lane,
    NodeOverview,
    Overview,
    PoolProblem,
    Reach,
    RecentChange,
    Segment,
    Waiting,
)

NOW: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCREENS: Final = Path(__file__).with_name("screens")
GPU: Final = "gpu.example.com"


_MANY_REASONS: Final = "0/3 nodes are available: 3 cannot allocate all claims: " + "too few devices fit; " * 5
WAITING: Final = (
    Waiting("Pod", "default/big", NOW - timedelta(hours=3), _MANY_REASONS),
    Waiting("Pod", "default/late", NOW - timedelta(seconds=90), "prepare failed: no power", "node-2"),
    Waiting("ResourceClaim", "default/lonely", NOW - timedelta(days=2), "not allocated: no known pod uses it"),
)
_GOT: Final = "claim default/train got gpu-0-mig-3g-20gb-0 on node-1"
_UNHEALTHY: Final = "fpga-1 of pool fpga.example.com/node-2: unhealthy"
CHANGES: Final = (
    RecentChange(NOW - timedelta(seconds=2), _GOT, "node-1"),
    RecentChange(NOW - timedelta(seconds=9), _UNHEALTHY, "node-2", is_problem=True),
)


def held(name: str, claim: str, **more: str) -> CardDevice:
    """A device of one claim and one pod."""
    return CardDevice(name, (f"default/{claim}",), (f"default/{claim}-pod",), **more)  # type: ignore[arg-type]


def mig_card(name: str = "gpu-0", node: str = "node-1") -> Card:
    """A GPU with two partitions in use, and eight memory slices."""
    return Card(
        driver=GPU,
        pool=node,
        name=name,
        lanes=(
            Lane("memory-slice", 8, "8", "5", (Segment(0, 0.0, 0.5), Segment(1, 0.5, 0.625))),
            Lane("memory", 0, "40192Mi", "24832Mi", (Segment(0, 0.0, 0.5), Segment(1, 0.5, 0.62))),
        ),
        listed=(held(f"{name}-mig-3g-20gb-0", "train"), held(f"{name}-mig-1g-5gb-4", "infer")),
        fitting=(f"{name}-mig-1g-5gb-5", f"{name}-mig-1g-5gb-6"),
        devices=19,
        product="NVIDIA A100-SXM4-40GB",
    )


def plain_card(driver: str, node: str, *devices: CardDevice, count: int = 4) -> Card:
    """Devices without counters. The devices with claims are the first of the lane."""
    used = [at for at, device in enumerate(devices) if device.claims]
    segments = tuple(Segment(at, at / count, (at + 1) / count) for at in used)
    return Card(
        driver,
        node,
        node,
        (Lane("devices", count, str(count), str(len(used)), segments),),
        devices,
        tuple(f"dev-{at}" for at in range(len(used), count)),
        count,
    )


def superpod() -> Reach:
    """A TPU slice of 64 chips on 16 hosts, half of it in use."""
    card = Card(
        driver="tpu.example.com",
        pool="slice-0",
        name="chips",
        lanes=tuple(
            Lane(
                f"tpus-host-{host}", 0, "4", "4" if host < 8 else "0", (Segment(host // 4, 0, 1),) * (host < 8)
            )
            for host in range(16)
        ),
        listed=(held("tpu-4x4-0", "mesh-a"), held("tpu-4x4-1", "mesh-b")),
        fitting=("tpu-4x4-2", "tpu-4x4-3", "tpu-4x8-1"),
        devices=21,
    )
    hosts = tuple(f"host-{number}" for number in range(16))
    return Reach(
        "tpu.example.com",
        "slice-0",
        hosts,
        is_everywhere=False,
        cards=(card,),
        device_nodes={"tpu-4x4-0": hosts[:4]},
    )


def fabric() -> Reach:
    """Memory that all nodes reach."""
    card = plain_card("cxl.example.com", "fabric", held("memory-0", "cache"), count=6)
    return Reach("cxl.example.com", "fabric", (), is_everywhere=True, cards=(card,), device_nodes={})


def cluster() -> Overview:
    """A small cluster with everything that a screen can show."""
    broken = CardDevice("fpga-1", taints=("example.com/hot=yes:NoSchedule",), health="unhealthy")
    fpgas = plain_card("fpga.example.com", "node-2", held("fpga-0", "filter", health="healthy"), broken)
    nodes = (
        NodeOverview("node-1", True, (mig_card(), mig_card("gpu-1")), {"zone": "a"}),
        NodeOverview("node-2", True, (fpgas, mig_card("gpu-0", "node-2")), {"zone": "b"}),
        NodeOverview("node-10", False, (plain_card(GPU, "node-10"),), {"zone": "b"}),
    )
    return Overview(
        {node.name: node for node in nodes},
        (fabric(), superpod()),
        WAITING,
        (PoolProblem(GPU, "node-10", "node-10", "2 slices of generation 3 are missing"),),
        CHANGES,
    )


def picture(overview: Overview, **more: object) -> Picture:
    """A picture of an overview at `NOW`."""
    index = ItemIndex()
    index.apply(overview)
    return Picture(overview, index, NOW, **more)  # type: ignore[arg-type]


def screen(state: ScreenState, width: int, height: int, of: Picture | None = None) -> str:
    """The text of a screen."""
    drawn = of or picture(cluster())
    state = keep_selection(state, drawn.index.shown(state.filter))
    return "\n".join(map(plain_text, draw_screen(drawn, state, width, height).lines))


def detail_of(kind: str, name: str) -> ScreenState:
    """The state in which an item is shown in detail."""
    return ScreenState("detail", selected=ItemKey(kind, name))  # type: ignore[arg-type]


def stale_screen() -> str:
    """The screen while the API server is away, and pods cannot be listed."""
    of = picture(
        cluster(),
        stale="the API server https://127.0.0.1:1 does not answer: connection refused",
        current_at=NOW - timedelta(minutes=2),
        missing={"pods": 'cannot list pods: "pods" is forbidden'},
    )
    return screen(ScreenState(), 80, 24, of)


def once() -> str:
    """The output of `--once` for a pipe."""
    return "\n".join(map(plain_text, draw_everything(picture(cluster()), ScreenState(), 100)))


GOLDEN: Final[Mapping[str, Callable[[], str]]] = {
    "list-80x24": lambda: screen(ScreenState(), 80, 24),
    "list-200x60": lambda: screen(ScreenState(at=3, selected=ItemKey("node", "node-2")), 200, 60),
    "list-40x12": lambda: screen(ScreenState(), 40, 12),
    "list-typing": lambda: screen(ScreenState(filter=ItemFilter(text="zone=b gpu"), is_typing=True), 80, 24),
    "detail-mig-80x24": lambda: screen(detail_of("node", "node-1"), 80, 24),
    "detail-fpga-120x40": lambda: screen(detail_of("node", "node-2"), 120, 40),
    "detail-superpod-80x24": lambda: screen(detail_of("reach", "tpu.example.com/slice-0"), 80, 24),
    "detail-fabric-80x24": lambda: screen(detail_of("reach", "cxl.example.com/fabric"), 80, 24),
    "waiting-80x24": lambda: screen(ScreenState("waiting"), 80, 24),
    "changes-80x24": lambda: screen(ScreenState("changes"), 80, 24),
    "problems-80x24": lambda: screen(ScreenState("problems"), 80, 24),
    "help-80x40": lambda: screen(ScreenState("help"), 80, 40),
    "stale-80x24": stale_screen,
    "once": once,
}
"""Functions that draw the golden screens, by the name of the file."""


if __name__ == "__main__":
    import os
    import time

    os.environ["TZ"] = "UTC"
    time.tzset()
    SCREENS.mkdir(exist_ok=True)
    for name, draw in GOLDEN.items():
        (SCREENS / f"{name}.txt").write_text(draw() + "\n")
