"""The commands of the README that `dradriver new` writes work, from the tests to a pod with a device."""

import json
import shutil
import time
from collections.abc import Sequence

import pytest
from click.testing import CliRunner

from dradriver.cli import main
from tests.walkthrough.offline import HANDLERS
from tests.walkthrough.reader import Reader, opened_folder

pytestmark = [
    pytest.mark.timeout(300),  # it starts about ten programs
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


@pytest.mark.parametrize("options", [(), ("--classic",)], ids=["node driver", "controller"])
def test_a_pod_runs_in_the_embedded_cluster_by_the_readme_alone(options: Sequence[str]) -> None:
    with opened_folder() as folder, Reader(folder, HANDLERS, up_options="--runtime process") as reader:
        project = folder / "dradriver-my-led"
        written = CliRunner().invoke(main, ["new", "my-led", f"--directory={project}", *options])
        assert written.exit_code == 0, written.output
        reader.keep(f"cd {project}")
        reader.read((project / "README.md").read_text(), name="README.md", until="On a cluster")
        tests = reader.printed["python -m pytest"]
        assert " passed" in tests
        assert "warning" not in tests.lower()
        if options:
            # `kubectl delete` waits for the pod. The controller deallocates its claim after that.
            state = folder / ".local/share/dradriver/simulation/my-led-manager.json"
            while json.loads(state.read_text()) != {"nodes": {}, "cards": {}}:
                time.sleep(0.1)
