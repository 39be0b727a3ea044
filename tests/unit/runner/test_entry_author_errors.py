"""An error in an author's code is one line: the device (or index), the field, the author's file and line.

Each case is an author's module. The expected line ends with `# here`.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent

import pytest

from dradriver.conditions.driver_values import check_attachments
from dradriver.driver import BindingDriver, Driver
from dradriver.driver.source_locations import find_definition
from dradriver.errors import DraError
from dradriver.node.driver_calls import Calls
from dradriver.node.kubelet.health_service import HealthMonitor
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.runner import entry, launch, load_any
from dradriver.testing import Harness

HEAD = """\
import dradriver as dra
from collections.abc import Iterator


class Leds(dra.Driver):
    name = "led.example.com"
"""
DISCOVER = """\
def discover(self):
    return [dra.Device("led-0")]
"""
PREPARE = """\
def prepare(self, claim):
    return {led: dra.ContainerEdits() for led in claim.devices}
"""


def module(*methods: str) -> str:
    """Return a driver with these methods, and default ones for the others."""
    given = [dedent(method) for method in methods]
    for name, usual in (("discover", DISCOVER), ("prepare", PREPARE)):
        if not any(re.search(rf"def {name}\b", each) for each in given):
            given.append(usual)
    return HEAD + "".join("\n" + indent(each, "    ") for each in given)


def discover(body: str) -> str:
    return module(f"def discover(self):\n    {body}\n")


DISCOVERED: dict[str, tuple[str, tuple[str, ...]]] = {
    "a number for an attribute": (
        discover('return [dra.Device("led-0", {"a": 1.5})]  # here'),
        ("device 'led-0'", "attributes['a']", "1.5 is not an attribute"),
    ),
    "an attribute that is a mapping": (
        discover('return [dra.Device("led-0", {"a": {"b": 1}})]  # here'),
        ("device 'led-0'", "attributes['a']"),
    ),
    "a list for attributes": (
        discover('return [dra.Device("led-0", ["a"])]  # here'),
        ("device 'led-0'", "attributes", "must be a mapping"),
    ),
    "a wrong quantity": (
        discover('return [dra.Device("led-0", capacity={"memory": "16Gb"})]  # here'),
        ("device 'led-0'", "capacity['memory']", "16Gb"),
    ),
    "a text for a list": (
        discover('return [dra.Device("led-0", binding_conditions="attached")]  # here'),
        ("device 'led-0'", "binding_conditions", "must be a list, not str"),
    ),
    "a number for a list": (
        discover('return [dra.Device("led-0", taints=5)]  # here'),
        ("device 'led-0'", "taints", "must be a list, not int"),
    ),
    "a wrong counter": (
        discover('return [dra.Pool(counter_sets=[dra.CounterSet("gpu-0", {"memory": "8Gb"})])]  # here'),
        ("counter set 'gpu-0'", "counters['memory']", "8Gb"),
    ),
    "what is consumed is no list": (
        discover('return [dra.Device("led-0", consumes_counters=dra.CounterConsumption("gpu-0", {}))]  # here'),
        ("device 'led-0'", "consumes_counters", "must be a list"),
    ),
    "a pool's devices are one device": (
        discover('return [dra.Pool("leds", devices=dra.Device("led-0"))]  # here'),
        ("pool 'leds'", "devices", "must be a list"),
    ),
    "an argument that does not exist": (
        discover('return [dra.Device("led-0", colour="red")]  # here'),
        ("discover() raised TypeError", "colour"),
    ),
    "a mapping for devices": (
        module('def discover(self):  # here\n    return {"a": 1.5}\n'),
        ("discover() returned {'a': 1.5} (dict)", "must be a list of devices or pools"),
    ),
    "nothing": (
        module("def discover(self):  # here\n    pass\n"),
        ("discover() returned None", "must be a list of devices or pools"),
    ),
    "names for devices": (
        module('def discover(self):  # here\n    return [dra.Device("led-0"), "led-1"]\n'),
        ("discover() returned 'led-1' (str) at index 1",),
    ),
    "an async generator": (
        module('async def discover(self):  # here\n    yield dra.Device("led-0")\n'),
        ("discover() returned", "async_generator", "must be a list of devices or pools"),
    ),
    "devices and pools": (
        module('def discover(self):  # here\n    return [dra.Device("led-0"), dra.Pool("leds")]\n'),
        ("discover() returned both pools and devices",),
    ),
    "a number for a device's name": (
        module("def discover(self):  # here\n    return [dra.Device(5)]\n"),
        ("device 5", "name: Expected `str`, got `int`"),
    ),
    "an object for a taint": (
        module('def discover(self):  # here\n    return [dra.Device("led-0", taints=[object()])]\n'),
        ("device 'led-0'", "taints"),
    ),
    "a text for a taint": (
        module(
            'def discover(self):  # here\n    return [dra.Device("led-0"), dra.Device("led-1", taints=["x"])]\n'
        ),
        ("device 'led-1'", "taints[0]"),
    ),
    "a text among a pool's devices": (
        module('def discover(self):  # here\n    return [dra.Pool("leds", ["led-0"])]\n'),
        ("pool 'leds'", "devices[0]", "'led-0' (str): must be a Device"),
    ),
    "an exception": (
        discover('return open("/no/such/file")  # here'),
        ("discover() raised FileNotFoundError", "/no/such/file"),
    ),
    "an exception in an async method": (
        module("async def discover(self):\n    return [dra.Device(str(1 / 0))]  # here\n"),
        ("discover() raised ZeroDivisionError",),
    ),
    "an exception in a helper": (
        module(
            "def discover(self):\n    return self.look()\n\n", "def look(self):\n    return {}['led']  # here\n"
        ),
        ("discover() raised KeyError: 'led'",),
    ),
    "an exception in a library": (
        discover('return __import__("json").loads("{")  # here'),
        ("discover() raised JSONDecodeError",),
    ),
    "a generator that raises midway": (
        module('def discover(self):\n    yield dra.Device("led-0")\n    yield dra.Device(1 / 0)  # here\n'),
        ("discover() raised ZeroDivisionError",),
    ),
    "a lazy list that raises": (
        module('def discover(self):\n    return (dra.Device("a", {"a": x}) for x in [1.5])  # here\n'),
        ("discover() raised TypeError: device 'a': attributes['a']",),
    ),
    "a parameter too many": (
        module("def discover(self, node):  # here\n    return []\n"),
        ("discover() raised TypeError", "node"),
    ),
    "an exception of several lines": (
        discover('raise ValueError("first\\nsecond")  # here'),
        ("discover() raised ValueError: first second",),
    ),
}


def prepare(body: str) -> str:
    return module(f"def prepare(self, claim):\n    {body}\n")


def prepare_with(value: str) -> str:
    return module(f"def prepare(self, claim):  # here\n    return {{led: {value} for led in claim.devices}}\n")


DEVICE = "device node-1/led-0"
PREPARED: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": (
        module("def prepare(self, claim):  # here\n    pass\n"),
        ("prepare() of claim default/claim-1", "returned NoneType: must be a mapping"),
    ),
    "a list": (
        module("async def prepare(self, claim):  # here\n    return [dra.ContainerEdits()]\n"),
        ("returned list: must be a mapping from devices",),
    ),
    "a generator": (
        module("def prepare(self, claim):  # here\n    yield dra.ContainerEdits()\n"),
        ("returned list: must be a mapping from devices",),
    ),
    "no answer for a device": (
        module("def prepare(self, claim):  # here\n    return {}\n"),
        (DEVICE, "returned no answer"),
    ),
    "a text for an answer": (
        prepare_with('"LED=0"'),
        (DEVICE, "returned str", "ContainerEdits or a PreparedDevice"),
    ),
    "a text for edits": (prepare_with('dra.PreparedDevice("LED=0")'), (DEVICE, "edits: str")),
    "metadata that is no attribute": (
        prepare_with('dra.PreparedDevice(metadata={"speed": 1.5})'),
        (DEVICE, "metadata['speed']", "is not an attribute"),
    ),
    "data that is no JSON": (prepare_with('dra.PreparedDevice(data={"at": object()})'), (DEVICE, " data: ")),
    "a wrong CDI ID": (prepare_with('dra.PreparedDevice(cdi_ids=["led"])'), (DEVICE, "cdi_ids: 'led'")),
    "a text for a device node": (
        prepare_with('dra.ContainerEdits(device_nodes=["/dev/led"])'),
        (DEVICE, "edits.deviceNodes[0]"),
    ),
    "a number in the environment": (prepare_with("dra.ContainerEdits(env=[5])"), (DEVICE, "edits.env[0]")),
    "a text for the environment": (
        prepare("return {led: dra.ContainerEdits(env='LED=0') for led in claim.devices}  # here"),
        ("container edits: env: must be a list, not str",),
    ),
    "a text for a mount's options": (
        prepare(
            "return {x: dra.ContainerEdits(mounts=[dra.Mount('a', '/b', 'ro')]) for x in claim.devices}  # here"
        ),
        ("mount at '/b': options: must be a list, not str",),
    ),
    "one CDI ID for a list": (
        prepare("return {led: dra.PreparedDevice(cdi_ids='a/b=c') for led in claim.devices}  # here"),
        ("prepared device: cdi_ids: must be a list, not str",),
    ),
    "an exception": (
        prepare("raise OSError('no power')  # here"),
        ("of claim default/claim-1", "OSError: no power"),
    ),
    "an exception in an async method": (
        module("async def prepare(self, claim):\n    return claim.device[0]  # here\n"),
        ("prepare() of claim default/claim-1", "AttributeError"),
    ),
    "no parameter": (
        module("def prepare(self):  # here\n    return {}\n"),
        ("prepare() of claim default/claim-1", "raised TypeError"),
    ),
}

HEALTH: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": (module("def health(self):  # here\n    pass\n"), ("health() returned NoneType",)),
    "a coroutine": (
        module("async def health(self):  # here\n    return []\n"),
        ("health() returned coroutine",),
    ),
    "one report for a list": (
        module('def health(self):  # here\n    yield dra.DeviceHealth("led-0", dra.Health.HEALTHY)\n'),
        ("health() yielded DeviceHealth: must be a list of DeviceHealth",),
    ),
    "a text for a report": (
        module('async def health(self):  # here\n    yield ["led-0"]\n'),
        ("health() yielded 'led-0'", "at index 0"),
    ),
    "a text for a health": (
        module('def health(self):  # here\n    yield [dra.DeviceHealth("led-0", "Healthy")]\n'),
        ("device 'led-0': health: 'Healthy'", "at index 0"),
    ),
    "a text for a duration": (
        module(
            "async def health(self):  # here\n"
            '    yield [dra.DeviceHealth("led-0", dra.Health.HEALTHY, check_timeout="9")]\n'
        ),
        ("device 'led-0': check_timeout: '9'", "at index 0"),
    ),
    "an exception midway": (
        module("def health(self):\n    yield []\n    raise OSError('gone')  # here\n"),
        ("health() raised OSError: gone",),
    ),
    "an exception midway in an async generator": (
        module("async def health(self):\n    yield []\n    raise OSError('gone')  # here\n"),
        ("health() raised OSError: gone",),
    ),
}

UPDATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a list": ("[]", ("list: must be a mapping from devices to DeviceMetadata",)),
    "a text for a device": (
        '{"led-0": dra.DeviceMetadata()}',
        ("'led-0'", "must be a device of the claim, or its (pool, name)"),
    ),
    "attributes for metadata": (
        '{("node-1", "led-0"): {"speed": 5}}',
        (DEVICE, "dict: must be DeviceMetadata"),
    ),
    "a number for an attribute": (
        '{("node-1", "led-0"): dra.DeviceMetadata({"speed": 1.5})}',
        (DEVICE, "metadata['speed']", "is not an attribute"),
    ),
}

FABRIC = """\
import dradriver as dra

class Leds(dra.BindingDriver):
    name = "led.example.com"
    def discover(self):
        return []
    def detach(self, attachment):
        pass
    def attach(self, claim, device):
        raise OSError("no cable")  # here
"""
ATTACHED: dict[str, tuple[str, tuple[str, ...]]] = {
    "a text": ('    def attachments(self):  # here\n        return "uid"\n', ("attachments() returned str",)),
    "texts": (
        '    async def attachments(self):  # here\n        return ["uid"]\n',
        ("attachments() returned 'uid' at index 0, must be an Attachment",),
    ),
    "an exception": (
        "    def attachments(self):\n        yield 1 / 0  # here\n",
        ("attachments() raised ZeroDivisionError",),
    ),
}

STARTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "a misspelt module": ("import dradrvier  # here\n", ("ModuleNotFoundError: No module named 'dradrvier'",)),
    "a missing dependency": ("import json\nimport pynvlm as nvml  # here\n", ("No module named 'pynvlm'",)),
    "a misspelt name": ("from dradriver import Drivr  # here\n", ("ImportError", "Drivr")),
    "a syntax error": ("def discover(:  # here\n", ("SyntaxError",)),
    "bad indentation": ("x = 1\n  y = 2  # here\n", ("IndentationError",)),
    "an exception": ("x = 1\ny = x / 0  # here\n", ("ZeroDivisionError",)),
    "an end": ("import sys\nsys.exit(3)  # here\n", ("SystemExit: 3",)),
    "no method": (
        HEAD.replace("class Leds(dra.Driver):", "class Leds(dra.Driver):  # here"),
        ("discover(), prepare()",),
    ),
    "no name": (
        module()
        .replace("class Leds(dra.Driver):", "class Leds(dra.Driver):  # here")
        .replace("    name =", "    nom ="),
        ("Leds.name: is required",),
    ),
    "a wrong name": (
        module()
        .replace("class Leds(dra.Driver):", "class Leds(dra.Driver):  # here")
        .replace("led.ex", "LED ex"),
        ("Leds.name:",),
    ),
    "a text for a duration": (
        module('rescan_seconds = "60"\n').replace("class Leds(dra.Driver):", "class Leds(dra.Driver):  # here"),
        ("Leds.rescan_seconds: '60'",),
    ),
    "a class for configs": (
        module("configs = dra.Config\n").replace("class Leds(dra.Driver):", "class Leds(dra.Driver):  # here"),
        ("Leds.configs:",),
    ),
    "a config of another kind": (
        module("configs = (dict,)\n").replace("class Leds(dra.Driver):", "class Leds(dra.Driver):  # here"),
        ("Leds.configs: <class 'dict'> must be a subclass of dradriver.Config",),
    ),
    "an exception in the constructor": (
        module("def __init__(self):\n    raise OSError('no bus')  # here\n"),
        ("Leds() raised OSError('no bus')",),
    ),
    "a parameter of the constructor": (
        module("def __init__(self, bus):\n    pass\n").replace(
            "class Leds(dra.Driver):", "class Leds(dra.Driver):  # here"
        ),
        ("Leds() raised TypeError", "bus"),
    ),
    "no class": ("Leds = 5\n", ("must be a subclass of dradriver.Driver",)),
}


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Yield a function that writes the author's module `leds` into an importable folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    # A harness whose driver failed in discover() is not closed, so its threads still run.
    monkeypatch.setattr(entry, "end_threads", lambda *_: None)

    def write(text: str) -> Path:
        path = tmp_path / "leds.py"
        path.write_text(text)
        return path

    yield write
    sys.modules.pop("leds", None)


def marked_line(path: Path) -> str:
    """Return the location of the marked line; without one, the file."""
    marked = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# here")]
    return f"({path}:{marked[0]})" if marked else f"({path})"


def leds() -> type[Driver]:
    loaded = load_any("leds:Leds")
    assert issubclass(loaded, Driver)
    return loaded


def assert_names_line(message: str, words: tuple[str, ...], path: Path) -> None:
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message
    assert marked_line(path) in message, message


@pytest.mark.parametrize(("text", "words"), DISCOVERED.values(), ids=DISCOVERED)
def test_errors_of_discover(
    text: str, words: tuple[str, ...], author: Callable[[str], Path], tmp_path: Path
) -> None:
    path = author(text)
    with pytest.raises(DraError) as caught, Harness(leds(), tmp_path):
        pass
    assert_names_line(str(caught.value), ("driver led.example.com: discover()", *words), path)


@pytest.mark.parametrize(("text", "words"), PREPARED.values(), ids=PREPARED)
def test_errors_of_prepare(
    text: str, words: tuple[str, ...], author: Callable[[str], Path], tmp_path: Path
) -> None:
    path = author(text)
    with Harness(leds(), tmp_path) as harness, pytest.raises(DraError) as caught:
        harness.prepare(harness.allocate())
    assert_names_line(str(caught.value), words, path)


@pytest.mark.parametrize(("text", "words"), HEALTH.values(), ids=HEALTH)
async def test_errors_of_health(
    text: str, words: tuple[str, ...], author: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = author(text)
    monitor = HealthMonitor(leds()(), "node-1", NodeMetrics("led.example.com"))
    task = asyncio.create_task(monitor.run())
    while not (said := [each for each in caplog.records if each.levelno >= logging.ERROR]):
        await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert said[0].exc_info is None
    assert_names_line(said[0].getMessage(), words, path)


@pytest.mark.parametrize(("given", "words"), UPDATES.values(), ids=UPDATES)
def test_errors_of_update_metadata(
    given: str, words: tuple[str, ...], author: Callable[[str], Path], tmp_path: Path
) -> None:
    path = author(
        module(
            "def prepare(self, claim):\n"
            "    return {led: dra.PreparedDevice(metadata={}) for led in claim.devices}\n",
            f"async def tell(self, claim_uid):\n    await self.update_metadata(claim_uid, {given})  # here\n",
        )
    )
    with Harness(leds(), tmp_path) as harness:
        claim = harness.allocate()
        harness.prepare(claim)
        tell = getattr(harness.driver, "tell")  # noqa: B009 - the author's own
        with pytest.raises(DraError) as caught:
            harness._runner.run(tell(claim.metadata.uid))
    assert_names_line(str(caught.value), words, path)


@pytest.mark.parametrize(("text", "words"), ATTACHED.values(), ids=ATTACHED)
async def test_errors_of_attachments(text: str, words: tuple[str, ...], author: Callable[[str], Path]) -> None:
    path = author(FABRIC.replace("  # here", "") + text)
    calls = Calls(driver := fabric())
    with pytest.raises(DraError) as caught:
        check_attachments(
            driver.name, await calls.call(driver.attachments), find_definition(driver.attachments)
        )
    calls.close()
    assert_names_line(str(caught.value), words, path)


async def test_errors_of_attach(author: Callable[[str], Path]) -> None:
    path = author(FABRIC)
    calls = Calls(driver := fabric())
    with pytest.raises(DraError) as caught:
        await calls.call(driver.attach, None, None, about=" of claim default/led")
    calls.close()
    assert_names_line(str(caught.value), ("attach() of claim default/led raised OSError: no cable",), path)


def fabric() -> BindingDriver:
    loaded = load_any("leds:Leds")
    assert issubclass(loaded, BindingDriver)
    return loaded()


@pytest.mark.parametrize(("text", "words"), STARTED.values(), ids=STARTED)
def test_errors_of_a_module(
    text: str, words: tuple[str, ...], author: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = author(text)
    assert launch("leds:Leds", {"node_name": "node-1"}) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ")
    assert_names_line(line, words, path)


def test_an_unknown_class_lists_the_drivers_of_the_module(author: Callable[[str], Path]) -> None:
    path = author(module())
    with pytest.raises(DraError) as caught:
        load_any("leds:Led")
    assert_names_line(str(caught.value), ("leds has no 'Led'; drivers in it: Leds",), path)


def test_an_unknown_module_names_the_search_path() -> None:
    with pytest.raises(
        DraError,
        match=r"No module named 'lesd'; the module is neither installed nor in a folder of \$PYTHONPATH",
    ):
        load_any("lesd:Leds")


async def test_the_traceback_is_logged_at_debug_without_the_message(
    author: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = author(discover("secret = 4711\n    raise ValueError(secret)  # here"))
    caplog.set_level(logging.DEBUG, "dradriver")
    driver = leds()()
    with pytest.raises(DraError, match="ValueError: 4711"):
        await (calls := Calls(driver)).call(driver.discover)
    calls.close()
    (record,) = [each for each in caplog.records if each.exc_info]
    traceback = logging.Formatter().format(record)
    assert f'File "{path}", line {marked_line(path).rpartition(":")[2][:-1]}, in discover' in traceback
    assert "ValueError: 4711" not in traceback


def test_an_import_error_has_its_traceback_at_debug(
    author: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    author(STARTED["a missing dependency"][0])
    launch("leds:Leds", {"node_name": "node-1", "log_level": "debug"})
    assert "Traceback (most recent call last)" in capsys.readouterr().err
