"""Code in the documentation works: Python blocks pass mypy --strict and run, commands and options exist.

The files of the tutorial are one project, which `tests/interop/walkthrough` assembles.

A block is a part of a module: `SETTINGS` has the lines around it.
"""

import asyncio
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import click
import pytest

import dradriver as dra
from dradriver.cli import main
from dradriver.cli.files import read_files
from dradriver.cli.validation.command import findings
from dradriver.node.devices.inventory import as_pools
from dradriver.publish.layout import refusals
from dradriver.runner import OPTIONS
from dradriver.testing import Harness

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.stem.replace('-', '_')}_{self.line}"


@dataclass(frozen=True)
class Setting:
    """The lines around a block.

    Attributes:
        before: the lines before it.
        inside: the head of the function that it is the body of; empty: it is a module's.
    """

    before: str = ""
    inside: str = ""


def blocks(language: str) -> list[Block]:
    return [
        Block(page, text[: match.start()].count("\n") + 1, language, match.group(2))
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for match in _FENCED.finditer(text)
        if match.group(1) == language and (language == "console" or page.parent.name != "tutorial")
    ]


LEDS = """
from collections.abc import Mapping

class LedConfig(dra.Config):
    api_version = "led.example.com/v1"
    kind = "LedConfig"
    brightness: int = 100

class LedDriver(dra.Driver):
    name = "led.example.com"
    configs = (LedConfig,)

    def discover(self) -> list[dra.Device]:
        return [dra.Device("led-0"), dra.Device("led-1")]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {device: dra.ContainerEdits(env={"LED": device.name}) for device in claim.devices}
"""
SWITCH = """
class Switch:
    async def connect(self, device: str, node: str, owner: str) -> bool:
        return node != "full"

    async def disconnect(self, device: str, owner: str) -> None:
        pass
"""
PROGRAM = """
class Image(dra.Config):
    api_version = "card.example.com/v1"
    kind = "Image"

async def program(device: str, image: Image | None) -> None:
    pass
"""
MEMORY = """
from collections.abc import Mapping

async def connect(device: str, node: str) -> str:
    return "0x1f"

async def create_region(data: Mapping[str, object] | None) -> None:
    pass
"""
CONNECT = """
from collections.abc import Collection, Mapping

async def connect(uid: str) -> None:
    pass
"""
RELEASES = """
from collections.abc import Sequence

class MemoryPools(dra.BindingDriver):
    name = "memory.example.com"

class MemoryOnNode(dra.NodeBindingDriver):
    name = "memory.example.com"

def pools_for(nodes: Sequence[str]) -> list[dra.Pool]:
    return []

def find_problem() -> str:
    return ""

def read_uuid() -> str:
    return "7"
"""
LICENSES = """
class LicenseServer:
    def __init__(self) -> None:
        self._free = 10
        self._seats: dict[str, int] = {}

    def check_out(self, feature: str, seats: int, owner: str) -> str:
        if owner not in self._seats:
            if seats > self._free:
                raise LookupError(f"{seats} seats are needed, {self._free} are free")
            self._free -= seats
            self._seats[owner] = seats
        return f"{feature}-{owner}"

    def check_in(self, owner: str) -> None:
        self._free += self._seats.pop(owner, 0)

    def has_free(self, feature: str, seats: int) -> bool:
        return seats <= self._free

    def owners(self) -> list[str]:
        return list(self._seats)
"""
WIRE = """
import time
from collections.abc import Iterator, Mapping

def is_cut() -> bool:
    return False
"""
CONTROLLER = next(each.text for each in blocks("python") if "class LicenseController" in each.text)
SETTINGS: dict[str, Setting] = {
    "class Fabric(dra.BindingDriver)": Setting(SWITCH),
    "class Cards(dra.NodeBindingDriver)": Setting(PROGRAM),
    "class MemoryPools(dra.BindingDriver)": Setting(MEMORY),
    "class SafePools(MemoryPools)": Setting(RELEASES),
    "class PoolOfOneNode(dra.BindingDriver)": Setting("from collections.abc import Collection"),
    "class FabricDriver(dra.Driver)": Setting(CONNECT),
    "class WireDriver(dra.Driver)": Setting(WIRE),
    "news = dra.DeviceMetadata": Setting(
        LEDS, "async def tell(self: LedDriver, claim: dra.Claim, device: dra.AllocatedDevice) -> None:"
    ),
    "from dradriver.testing import ControllerContract": Setting(LICENSES + CONTROLLER),
    "from dradriver.testing import": Setting(LEDS),
    '"""Floating licenses': Setting(LICENSES),
    "class OptionalLicenses(LicenseController)": Setting(LICENSES + CONTROLLER),
}
PYTHON = blocks("python")


def module(block: Block) -> str:
    """Return the block with the lines around it."""
    setting = next((each for head, each in SETTINGS.items() if block.text.startswith(head)), Setting())
    body = f"{setting.inside}\n{indent(block.text, '    ')}" if setting.inside else block.text
    return f"import dradriver as dra\n{setting.before}\n{body}"


def test_every_setting_belongs_to_a_block() -> None:
    assert [head for head in SETTINGS if not any(each.text.startswith(head) for each in PYTHON)] == []
    assert len(PYTHON) >= 12


def test_python_blocks_pass_mypy_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MYPYPATH", str(tmp_path))
    for block in PYTHON:
        (tmp_path / f"{block.name}.py").write_text(module(block))
    # One run with the cache of the repository: a separate run for each would take a minute.
    report, errors, code = api.run(["--strict", str(tmp_path)])
    assert code == 0, report.replace(str(tmp_path), "") + errors


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the PCI device that the pages read."""
    real = tmp_path / "sys/devices/pci0000:64/0000:65:00.0"
    real.mkdir(parents=True)
    (real / "numa_node").write_text("0\n")
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / "0000:65:00.0").symlink_to(real)
    monkeypatch.setattr(dra, "pci_attributes", partial(dra.pci_attributes, sysfs=tmp_path / "sys"))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.name)
def test_a_python_block_runs(block: Block, tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": block.name}
    exec(compile(module(block), f"{block.page}:{block.line}", "exec"), names)
    made = {name: value for name, value in names.items() if getattr(value, "__module__", "") == block.name}
    for name, value in made.items():
        if isinstance(value, type) and issubclass(value, dra.Driver | dra.PoolDriver):
            _offers_what_can_be_published(value)
        if isinstance(value, type) and issubclass(value, dra.ControllerDriver):
            _allocates_and_deallocates(value, names["LicenseClass"], names["LicenseClaim"])
        if inspect.isfunction(value) and name.startswith("test_"):
            value()
    if inspect.iscoroutinefunction(tell := names.get("tell")):
        _set_status(tell, names["LedDriver"], tmp_path)


def _offers_what_can_be_published(kind: type[dra.Driver] | type[dra.PoolDriver]) -> None:
    if inspect.isabstract(kind):
        return  # a page shows one method of it
    node = "node-1" if issubclass(kind, dra.Driver) else None
    driver = kind()
    found = driver.discover()
    assert not inspect.isawaitable(found)
    for pool in as_pools(found, node, "discover()"):
        assert [str(each) for each in refusals(pool, node)] == []
    if isinstance(driver, dra.BindingDriver):
        claim = SimpleNamespace(node="node-1", uid="uid")
        gpu = dra.AllocatedDevice("gpu", "fabric-1", "gpu-0")
        for method in (driver.attach(claim, gpu), driver.detach(dra.Attachment("uid", "fabric-1", "gpu-0"))):  # type: ignore[arg-type]
            asyncio.run(method)  # type: ignore[arg-type]
        with pytest.raises(dra.AttachError):
            asyncio.run(driver.attach(SimpleNamespace(node="full", uid="uid"), gpu))  # type: ignore[arg-type]


def _allocates_and_deallocates(kind: type[dra.ControllerDriver], of_class: Any, of_claim: Any) -> None:
    """Both methods are idempotent, and a claim that does not fit is an error or gets no devices."""
    driver: Any = kind()

    def claim(uid: str, seats: int) -> dra.PendingClaim:
        request = dra.PendingRequest(
            "license",
            "solver-license",
            class_parameters=of_class(feature="solver"),
            claim_parameters=of_claim(seats=seats),
        )
        return dra.PendingClaim(uid, "default", uid, requests=(request,))

    small, large = claim("small", 8), claim("large", 3)
    first = driver.allocate([small, large], "node-1")
    assert driver.allocate([small], "node-1")["small"] == first["small"]
    assert first["small"].handles == {"license.example.com": b"solver-small"}
    assert isinstance(first["large"], dra.AllocationError) or not first["large"].devices
    pod = dra.PendingPod("uid", "default", "pod-1")
    unsuitable = driver.unsuitable_nodes(pod, [large], ["node-1"])
    assert unsuitable == ({"large": ["node-1"]} if isinstance(first["large"], dra.AllocationError) else {})
    assert driver.allocations() == ["small"]
    for _ in range(2):
        driver.deallocate(dra.RecordedClaim("small"))
    assert driver.allocate([large], "node-1")["large"].devices


def _set_status(tell: Callable[..., object], kind: object, tmp_path: Path) -> None:
    """As a driver does after `prepare`."""
    assert isinstance(kind, type)
    assert issubclass(kind, dra.Driver)

    class Described(kind):  # type: ignore[valid-type, misc]
        def prepare(self, claim: dra.Claim) -> dict[dra.AllocatedDevice, dra.PreparedDevice]:
            return {device: dra.PreparedDevice(metadata={}) for device in claim.devices}

    with Harness(Described, tmp_path) as harness:
        claim = harness.allocate()
        harness.prepare(claim)
        (result,) = claim.results
        device = dra.AllocatedDevice(result.request, result.pool, result.device)
        update = tell(harness.driver, SimpleNamespace(uid=claim.metadata.uid), device)
        harness._runner.run(update)  # type: ignore[arg-type]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Return every command of the console blocks, with its position."""
    for block in blocks("console"):
        joined = block.text.replace("\\\n", " ")
        for line in joined.splitlines():
            if not line.startswith("$ "):
                continue
            words: list[str] = []
            split = shlex.shlex(line[2:], posix=True, punctuation_chars="|&;")
            split.whitespace_split = True
            words = []
            for word in (*split, "|"):
                if word and set(word) <= set("|&;"):
                    if words:
                        yield f"{block.page.name}:{block.line}", words
                    words = []
                else:
                    words.append(word)


COMMANDS = list(commands())


@pytest.mark.parametrize(
    ("where", "words"),
    [(where, words) for where, words in COMMANDS if words[0] == "dradriver"],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[1:3]),
)
def test_a_command_line_of_dradriver_is_valid(where: str, words: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main)
    rest = words[1:]
    while isinstance(command, click.Group) and not (rest and rest[0].startswith("-")):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, where
        context, command = click.Context(found, info_name=name, parent=context), found
    command.make_context(
        command.name, list(takewhile(lambda word: not word.startswith(">"), rest)), parent=context
    )


def test_pages_show_commands() -> None:
    assert {words[0] for _, words in COMMANDS} >= {"dradriver", "kubectl", "helm", "make"}


def test_files_of_the_repository_that_commands_name_exist() -> None:
    named = [
        (where, word)
        for where, words in COMMANDS
        for word in words
        if re.match(r"(examples|packaging|docs|drivers|tests|benchmarks)/", word)
    ]
    assert named
    assert [(where, word) for where, word in named if not list(ROOT.glob(word.rstrip("/")))] == []


def test_a_driver_of_a_page_is_started_with_existing_options() -> None:
    flags = {option.flag for option in OPTIONS}
    started = [words for _, words in COMMANDS if words[0].startswith("python") and "--node-name" in words]
    assert started
    assert {word for words in started for word in words if word.startswith("--")} <= flags


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.name)
def test_objects_of_a_page_are_valid(block: Block, tmp_path: Path) -> None:
    if not re.search(r"^kind: ", block.text, re.MULTILINE):
        return  # a part of an object, or values of the chart
    path = tmp_path / "block.yaml"
    path.write_text(block.text)
    assert [str(each) for each in findings(read_files([str(path)])) if each.severity == "error"] == []
