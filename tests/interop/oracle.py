"""A Go program that says what Kubernetes does: built once a session, asked by JSON lines."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

GO: Final = shutil.which("go")


def build(source: Path, target: Path) -> Path:
    """The program whose module is in the folder `source`, built into the folder `target`."""
    assert GO is not None, "Go is not installed"
    program = target / f"{source.name}oracle"
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run([GO, "build", "-o", str(program), "."], cwd=source, env=environment, check=True)
    return program


def ask(program: Path, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Kubernetes' answer to each question: a verdict, what belongs to it, and the text of an error."""
    lines = "\n".join(json.dumps(question) for question in questions)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
