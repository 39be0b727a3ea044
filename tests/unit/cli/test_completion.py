"""Completion in a real bash, and for kubectl's plugin."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from shlex import quote

import click
import pytest
from click.testing import Result

from dradriver.cli.completion import candidates
from dradriver.cli.completion.candidates import completer
from dradriver.cli.main import kubectl_plugin, kubectl_plugin_completion
from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import PODS, SLICES, Client
from dradriver.testing.builders import device, pod, slice_

Command = Callable[..., Result]

SECONDS = 50.0
"""A user does not wait as long for names. A busy machine needs more than two seconds for the imports alone."""
PATIENT = f"""
from dradriver.cli import main
from dradriver.cli.completion import candidates
candidates._TIMEOUT_SECONDS = {SECONDS}
main(prog_name="dradriver")
"""


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path)
    async with await Client.connect(str(path)) as client:
        await client.create(SLICES, slice_(device("gpu-0"), device("gpu-1"), count=1), into=dict)
        for name in ("train-0", "train-1", "web"):
            await client.create(PODS, pod("claim-1", name=name), "default", into=dict)
    yield path
    await server.stop()


def complete_in_bash(script: str, line: str, folder: Path, kubeconfig: Path) -> set[str]:
    """The candidates that bash has for the last word of a line."""
    program = folder / "dradriver"
    program.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -c {quote(PATIENT)} "$@"\n')
    program.chmod(0o755)
    words = line.split(" ")
    asked = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
        '_dradriver_completion dradriver "${COMP_WORDS[COMP_CWORD]}"\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "DRADRIVER_KUBECONFIG": str(kubeconfig),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True, env=environment
    )
    return set(done.stdout.split())


async def test_bash_completes_commands_options_and_names(
    dradriver: Command, kubeconfig: Path, tmp_path: Path
) -> None:
    script = dradriver("completion", "bash").stdout

    def complete(line: str) -> set[str]:
        return complete_in_bash(script, line, tmp_path, kubeconfig)

    assert await asyncio.to_thread(complete, "dradriver ge") == {"get"}
    assert await asyncio.to_thread(complete, "dradriver -n default get p") == {"partitions", "pods", "pools"}
    assert await asyncio.to_thread(complete, "dradriver get pods train") == {"train-0", "train-1"}


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_shell_has_a_script(dradriver: Command, shell: str) -> None:
    assert "_DRADRIVER_COMPLETE" in dradriver("completion", shell).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["get", "pods", "tr"], ["train-0", "train-1"]),
        (["get", "pods", "train-0", "tr"], ["train-1"]),
        (["get", "devices", ""], ["gpu-0", "gpu-1"]),
        (["get", "devices", "--driver", ""], ["driver.example.com"]),
        (["get", "devices", "--pool", ""], ["node-1"]),
        (["get", "pods", "-n", "def"], ["default"]),
        (["explain", "pod", "w"], ["web"]),
        (["get", "pods", "-o", "jsonp"], ["jsonpath="]),
    ],
    ids=" ".join,
)
async def test_kubectl_gets_candidates_and_a_directive(
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    expected: list[str],
) -> None:
    monkeypatch.setattr(candidates, "_TIMEOUT_SECONDS", SECONDS)
    monkeypatch.setenv("DRADRIVER_KUBECONFIG", str(kubeconfig))
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-dra", *words])
    await asyncio.to_thread(kubectl_plugin_completion)
    assert capsys.readouterr().out.splitlines() == [*expected, ":4"]


def test_a_cluster_that_does_not_answer_gives_no_names_and_no_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = click.Command("x", params=[click.Argument(["name"])])
    context = click.Context(command)
    context.params = {"kubeconfig": str(tmp_path / "missing")}
    assert completer("pods")(context, command.params[0], "") == []
    assert capsys.readouterr() == ("", "")


def test_the_plugin_of_kubectl_names_itself_in_help_and_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for words in (["--help"], ["get", "--help"], ["describe", "pod", "a"]):
        monkeypatch.setattr(sys, "argv", ["kubectl-dra", *words])
        with pytest.raises(SystemExit):
            kubectl_plugin()
        shown.append("".join(capsys.readouterr()))
    assert shown[0].startswith("Usage: kubectl dra [OPTIONS] COMMAND")
    assert shown[1].startswith("Usage: kubectl dra get [OPTIONS] COMMAND")
    assert "type: kubectl dra explain pod a" in shown[2].replace("Type", "type")
