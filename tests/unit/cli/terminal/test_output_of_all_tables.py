"""All tables of the command line at 80, 100 and 140 columns: no name is broken."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

import dradriver as dra
from dradriver.cli.classic import ClassicClaims
from dradriver.cli.get.claims import COLUMNS as CLAIM_COLUMNS
from dradriver.cli.get.claims import _Context as ClaimContext
from dradriver.cli.get.claims import _row as claim_row
from dradriver.cli.get.devices import COLUMNS as DEVICE_COLUMNS
from dradriver.cli.get.devices import WIDE, device_rows
from dradriver.cli.get.pods import COLUMNS as POD_COLUMNS
from dradriver.cli.get.pods import _row as pod_row
from dradriver.cli.get.pools import COLUMNS as POOL_COLUMNS
from dradriver.cli.get.pools import pool_rows
from dradriver.cli.get.slices import COLUMNS as SLICE_COLUMNS
from dradriver.cli.get.slices import _row as slice_row
from dradriver.cli.listing import document_row
from dradriver.cli.terminal import output
from dradriver.cli.terminal.layout import table_lines
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import Harness
from dradriver.testing.builders import allocated, claim, pod
from tests.unit.cli.classic_objects import CONTROLLER, classic_claim, classic_class
from tests.unit.cli.worlds import GPU_DRIVER, a100, listed

Command = Callable[..., Result]
WIDTHS = [80, 100, 140]
DEVICE = "gpu-0-mig-1g-10gb-me-placement-0"
CLAIM = "training-run-7-workers-gpu-claim-x7k2p"


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    columns: int = request.param
    monkeypatch.setattr(output, "terminal_width", lambda: columns)
    return columns


def holds(text: str, width: int, names: list[str]) -> None:
    """The names are whole, and only a line that is one of them is wider than the terminal."""
    for name in names:
        assert re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text), f"{name}\n{text}"
    wide = [line for line in text.splitlines() if len(line) > width]
    assert [line for line in wide if " " in line.strip().partition(": ")[2]] == []


def show_rows(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    cells = [document_row("", (), columns, row).cells for row in rows]
    output.table(columns, [[row[column] for column in columns] for row in cells], empty="")


def typed() -> list[ResourceSlice]:
    return [from_builtins(ResourceSlice, each) for each in a100()]


def test_devices(capsys: pytest.CaptureFixture[str], width: int) -> None:
    slices = typed()
    (first, *_) = [device.name for each in slices for device in each.spec.devices]
    held = allocated(claim(name=CLAIM), first, driver=GPU_DRIVER)
    rows = list(device_rows(slices, [held]))
    for columns in (DEVICE_COLUMNS, WIDE):
        show_rows(columns, rows)
        text = capsys.readouterr().out
        holds(text, width, [*(str(row["name"]) for row in rows), f"default/{CLAIM}", GPU_DRIVER])
        assert ("profile=" in text) == (columns == WIDE)
    show_rows(DEVICE_COLUMNS, rows)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= len(rows) + 3  # one line a device, but for the claim that is not short


def test_pools(capsys: pytest.CaptureFixture[str], width: int) -> None:
    rows = list(pool_rows(typed()[:1], []))
    show_rows(POOL_COLUMNS, rows)
    holds(capsys.readouterr().out, width, [GPU_DRIVER, "node-1", "incomplete"])


def test_slices_claims_and_pods(width: int) -> None:
    now = datetime.now(UTC)
    held = allocated(claim(name=CLAIM), DEVICE, "gpu-1-mig-3g-40gb-placement-4", driver=GPU_DRIVER)
    user = pod(CLAIM, name="training-run-7-worker-0")
    message = "0/3 nodes are available: 3 cannot allocate all claims. " * 3
    classic = classic_claim("second-claim", begun=True)
    context = ClaimContext({f"default/{CLAIM}": message}, ClassicClaims({CONTROLLER: classic_class()}))
    shown = {
        SLICE_COLUMNS: [slice_row(each, now) for each in typed()],
        CLAIM_COLUMNS: [claim_row(context, held, now), claim_row(context, classic, now)],
        POD_COLUMNS: [[*pod_row(user, now)[:-1], message]],
    }
    for columns, rows in shown.items():
        text = "\n".join(table_lines(columns, rows, width))
        holds(text, width, ["node-1"] if columns == SLICE_COLUMNS else [CLAIM])
    text = "\n".join(table_lines(CLAIM_COLUMNS, shown[CLAIM_COLUMNS], width))
    holds(text, width, ["second-claim", CONTROLLER, "WaitForFirstConsumer", "allocating"])


class Led(dra.Driver):
    name = "led.example.com"

    def discover(self) -> list[dra.Device]:
        return [dra.Device("led-0-with-a-long-name"), dra.Device("led-1")]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {device: dra.ContainerEdits(env={"LED": device.name}) for device in claim.devices}


def test_node_status(dradriver: Command, tmp_path: Path, width: int) -> None:
    with Harness(Led, tmp_path) as harness:
        prepared = harness.allocate(name=CLAIM)
        harness.prepare(prepared)
        where = ("--plugins-dir", str(tmp_path / "plugins"), "--cdi-dir", str(tmp_path / "cdi"))
        text = dradriver("node", "status", *where).stdout
    holds(text, width, [f"default/{CLAIM}", prepared.metadata.uid, "node-1/led-0-with-a-long-name", Led.name])


def test_explain_and_partitions(dradriver: Command, width: int) -> None:
    world = listed(*a100(), claim(name=CLAIM), pod(CLAIM, name="training-run-7-worker-0"))
    text = dradriver("explain", "pod", "training-run-7-worker-0", "-f", "-", stdin=world).stdout
    holds(text, width, [f"default/{CLAIM}"])
    assert max(map(len, text.splitlines())) <= width
    drawn = dradriver("get", "partitions", "-f", "-", stdin=world).stdout
    assert max(map(len, drawn.splitlines())) <= width
