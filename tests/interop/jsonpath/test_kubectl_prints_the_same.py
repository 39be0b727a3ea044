"""The case tables of the JSONPath templates, compared with kubectl."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.jsonpath.cases import REJECTED, TABLES


def by_kubectl(document: object, template: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`kubectl patch --local` prints an object of a file, without a cluster."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    file = folder / "object.json"
    file.write_text(json.dumps(document))
    change = ["kubectl", "patch", "--local", "--type", "merge", "-f", str(file), "-p", "{}"]
    command = [*change, "-o", f"jsonpath={template}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("document", "template", "output"), TABLES)
def test_kubectl_prints_what_the_table_has(
    document: object, template: str, output: str, tmp_path: Path
) -> None:
    done = by_kubectl(document, template, tmp_path)
    assert (done.stdout, done.returncode) == (output, 0), done.stderr


@pytest.mark.parametrize(("document", "template"), REJECTED)
def test_kubectl_rejects_what_the_table_rejects(document: object, template: str, tmp_path: Path) -> None:
    assert by_kubectl(document, template, tmp_path).returncode != 0
