"""`dradriver cel` evaluates a selector on devices."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import SLICES, Client
from dradriver.testing.builders import DRIVER, device, slice_
from tests.unit.cli.worlds import listed

Command = Callable[..., Result]

OBJECTS = listed(slice_(device("big", {"model": "a", "slots": 8}), device("small", {"model": "b"})))


def test_it_lists_the_devices_that_match(dradriver: Command) -> None:
    result = dradriver("cel", f'device.attributes["{DRIVER}"].model == "a"', "-f", "-", stdin=OBJECTS)
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["DRIVER", "POOL", "DEVICE"],
        [DRIVER, "node-1", "big"],
    ]
    assert result.stderr == "1 of 2 devices match, 0 fail; highest cost 5 of 1000000, most steps 15 of 200000\n"


def test_it_is_evaluated_on_the_generation_that_each_node_sees(dradriver: Command) -> None:
    old = slice_(device("old"), node_name="node-1", pool="gpus", name="gpus-1")
    gone = slice_(device("gone"), node_name="node-2", pool="gpus", name="gpus-2-old")
    new = slice_(device("new"), node_name="node-2", pool="gpus", name="gpus-2", generation=2)
    result = dradriver("cel", "true", "-f", "-", stdin=listed(old, gone, new))
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == ["new", "old"]


def test_no_match_is_no_failure(dradriver: Command) -> None:
    result = dradriver("cel", "device.driver == 'other'", "-f", "-", stdin=OBJECTS)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("No device matches.\n0 of 2 devices match")


def test_a_compile_error_has_its_position(dradriver: Command) -> None:
    result = dradriver("cel", "device.driver == 'a' &&\n  device.foo", "-f", "-", stdin=OBJECTS)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "Error: the expression does not compile: a device has no field 'foo'",
        "    device.driver == 'a' &&",
        "      device.foo",
        "            ^",
        "  hint: its fields are driver, allowMultipleAllocations, attributes, capacity",
    ]


def test_an_evaluation_error_has_its_devices_and_position(dradriver: Command) -> None:
    result = dradriver("cel", f'device.attributes["{DRIVER}"].slot > 4', "-f", "-", stdin=OBJECTS)
    assert result.exit_code == 1
    first, *_ = result.stderr.partition("Evaluation fails on ")[2].splitlines()
    assert first == f"{DRIVER}/node-1/big, {DRIVER}/node-1/small: no such key: slot"
    assert "  hint: the device has slots" in result.stderr.splitlines()
    assert result.stderr.splitlines()[-1] == "0 of 2 devices match, 2 fail"


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ('device.attributes["other.example.com"].model == "a"', f"the device has it in domain {DRIVER}"),
        (f'device.attributes["{DRIVER}"].model = "a"', "equality is written =="),
        ("driver == 'a'", "write device.driver"),
    ],
)
def test_frequent_errors_have_a_hint(dradriver: Command, expression: str, hint: str) -> None:
    result = dradriver("cel", expression, "-f", "-", stdin=OBJECTS)
    assert f"  hint: {hint}" in result.stderr.splitlines()


@pytest.mark.parametrize(
    ("expression", "matches", "failures", "error"),
    [
        ("true", ["big", "small"], [], {}),
        (f'device.attributes["{DRIVER}"].slots > 4', ["big"], ["no such key: slots"], {}),
        ("devic", [], [], {"reason": "undeclared name 'devic'", "line": 1, "column": 1}),
    ],
)
def test_programs_get_a_document(
    dradriver: Command, expression: str, matches: list[str], failures: list[str], error: dict[str, object]
) -> None:
    result = dradriver("cel", expression, "-o", "json", "-f", "-", stdin=OBJECTS)
    answer = json.loads(result.stdout)
    assert answer["kind"] == "SelectorTrial"
    assert [each["device"] for each in answer["matches"]] == matches
    assert [each["reason"] for each in answer["failures"]] == failures
    assert error.items() <= answer.get("error", {}).items()
    assert result.exit_code == bool(failures or error)


async def test_it_reads_the_cluster_without_files(dradriver: Command, tmp_path: Path) -> None:
    server = ApiServer(tmp_path / "server")
    await server.start()
    kubeconfig = str(tmp_path / "kubeconfig")
    await asyncio.to_thread(server.write_kubeconfig, Path(kubeconfig))
    async with await Client.connect(kubeconfig) as client:
        await client.create(SLICES, slice_(device("gpu-0")), into=dict)
    result = await asyncio.to_thread(dradriver, "cel", "true", "--kubeconfig", kubeconfig)
    await server.stop()
    assert "gpu-0" in result.stdout, result.output


def test_a_file_that_is_not_yaml_is_one_line(dradriver: Command) -> None:
    result = dradriver("cel", "true", "-f", "-", stdin="a: [1\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: <stdin>:2: not YAML: ")
    assert result.stderr.count("\n") == 1


def test_no_devices_are_an_error(dradriver: Command) -> None:
    result = dradriver("cel", "true", "-f", "-", stdin=listed({"kind": "Pod", "metadata": {"name": "a"}}))
    assert result.exit_code == 1
    assert result.stderr == "Error: no devices: the ResourceSlices in the files have none\n"
