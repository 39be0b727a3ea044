"""The code in dradriver/wire is the output of protoc for proto/."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("grpc_tools") is None, reason="grpcio-tools is not installed")
def test_the_wire_code_is_the_output_of_protoc(tmp_path: Path) -> None:
    protos = sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto").rglob("*.proto"))
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Idradriver/wire=proto", *outputs]
    subprocess.run([*command, *(f"dradriver/wire/{proto}" for proto in protos)], cwd=ROOT, check=True)
    generated = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.py*")}
    assert len(generated) == 3 * len(protos)
    stale = [str(path) for path, text in generated.items() if (ROOT / path).read_text() != text]
    assert stale == [], "run `make proto`"
