"""A command without its extra prints one line with the pip command. All other commands need no extra."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result

from dradriver import extras
from dradriver.cli.main import COMMANDS
from dradriver.errors import DraError
from dradriver.extras import EXTRAS, MissingExtraError, require
from dradriver.kube.config.credentials import PluginToken
from dradriver.kube.config.kubeconfig import Cluster, KubeconfigContext, User

ROOT = Path(__file__).parents[3]
MODULES = {"google-re2": "re2"}
"""Modules whose names differ from their distributions."""
ALL = frozenset(module for modules in EXTRAS.values() for module in modules)
Command = Callable[..., Result]


def python(blocked: Iterable[str], code: str) -> subprocess.CompletedProcess[str]:
    """Runs code where some modules are not installed."""
    program = f"import sys\nsys.modules.update(dict.fromkeys({sorted(blocked)!r}))\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )


def command(blocked: Iterable[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(blocked, f"from dradriver.cli import main\nmain({list(arguments)!r}, prog_name='dradriver')")


def without(monkeypatch: pytest.MonkeyPatch, modules: Iterable[str]) -> None:
    """Makes modules look as if they were not installed."""
    missing = set(modules)
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in missing else find_spec(name))


def test_extras_have_the_modules_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared: dict[str, set[str]] = {}
    for extra, required in sorted(project["optional-dependencies"].items(), reverse=True):
        names = {re.split("[>=]", each)[0] for each in required}
        nested = {name for name in names if name.startswith("dradriver[")}
        declared[extra] = {MODULES.get(name, name) for name in names - nested}
        declared[extra] |= {m for name in nested for m in declared[name[len("dradriver[") : -1]]}
    assert declared == {extra: set(modules) for extra, modules in EXTRAS.items()}


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if entry.extra])
def test_a_command_without_its_extra_names_the_pip_command(
    dradriver: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    extra = COMMANDS[name].extra
    without(monkeypatch, EXTRAS[extra])
    result = dradriver(name)
    modules = ", ".join(EXTRAS[extra])
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: dradriver {name} needs {modules}, not installed here: pip install 'dradriver[{extra}]'\n"
    )


def test_a_process_without_the_modules_prints_the_pip_command_and_no_traceback() -> None:
    ended = command(["rich"], "demo")
    assert ended.returncode == 1
    assert "'dradriver[cluster]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("extra", ["", "scheduler", "cluster"])
def test_commands_need_no_more_than_their_extra(extra: str) -> None:
    """Each is imported, and shows its help."""
    names = [name for name, entry in COMMANDS.items() if entry.extra == extra]
    ended = python(
        ALL - set(EXTRAS.get(extra, ())),
        f"""
from click.testing import CliRunner
from dradriver.cli import main
for name in {names!r}:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.output.startswith("Usage: main " + name), result.output
    assert result.exit_code == 0
""",
    )
    assert ended.returncode == 0, ended.stderr


def test_pods_are_placed_without_the_embedded_control_plane() -> None:
    files = ("-f", "examples/keps/5963-foo-bar-baz.yaml", "-o", "json")
    placed = command(ALL - {"re2"}, "simulate", *files)
    assert placed.stdout.startswith("{"), placed.stderr
    gates = command(ALL - {"re2"}, "simulate", *files, "--feature-gates", "DRAListTypeAttributes=true")
    assert gates.stderr == (
        "Error: --feature-gates needs cryptography, rich, not installed here: "
        "pip install 'dradriver[cluster]'\n"
    )


def test_a_drivers_process_imports_no_extra() -> None:
    modules = (
        "runner.serve", "runner.endpoints", "runner.binding", "runner.binding_node", "runner.pools",
        "runner.leading", "node.plugin", "admission.server",
    )  # fmt: skip
    drivers = "dradriver_gpu_mig.factory, dradriver_gpu_mig.driver, dradriver_loop"
    ended = python(ALL, f"import {', '.join(f'dradriver.{each}' for each in modules)}, {drivers}")
    assert ended.returncode == 0, ended.stderr


def test_the_test_kit_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import dradriver.testing

    without(monkeypatch, EXTRAS["scheduler"])
    with pytest.raises(
        MissingExtraError, match=r"dradriver\.testing\.Harness needs re2, .*'dradriver\[scheduler\]'"
    ):
        _ = dradriver.testing.Harness


async def test_a_kubeconfig_with_a_plugin_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, EXTRAS["kubeconfig"])
    user = User(exec={"command": "gke-gcloud-auth-plugin"})
    context = KubeconfigContext("/home/me/config", "gke", Cluster(server="https://gke"), user, "default")
    with pytest.raises(DraError, match=r"/home/me/config.*exec needs kubernetes, .*'dradriver\[kubeconfig\]'"):
        await PluginToken(context).header()


def test_installed_extras_are_not_reported() -> None:
    for extra in EXTRAS:
        require(extra, "this test")
