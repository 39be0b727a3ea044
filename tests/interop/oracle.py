"""A Go program with the behavior of Kubernetes: built once a session, with JSON lines as questions."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

GO: Final = shutil.which("go")


def build(source: Path, target: Path) -> Path:
    """Build the program of the module in the folder `source` into the folder `target`; return its path."""
    assert GO is not None, "Go is not installed"
    program = target / f"{source.name}oracle"
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    subprocess.run([GO, "build", "-o", str(program), "."], cwd=source, env=environment, check=True)
    return program


def ask(program: Path, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return Kubernetes' answer to each question: a verdict, its details, and the text of an error."""
    lines = "\n".join(json.dumps(question) for question in questions)
    done = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
