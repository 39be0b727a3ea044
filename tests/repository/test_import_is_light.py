"""`import dradriver` and the pytest plugin load nothing heavy: drivers and test runs start at once."""

import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp",
    "click",
    "cryptography",
    "google",
    "grpc",
    "kubernetes",
    "prometheus_client",
    "rich",
    "yaml",
}


def loaded(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after a statement."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(outcome.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import dradriver",
        "import dradriver.testing",
        "import dradriver.testing.plugin",
        "import dradriver_loop",
    ],
)
def test_nothing_heavy_is_loaded_by(statement: str) -> None:
    # pytest itself is there when it loads the plugin, with whatever it loads.
    base = loaded("import pytest, pytest_asyncio") if "plugin" in statement else set()
    assert (loaded(statement) - base) & HEAVY == set()


def test_the_command_line_loads_neither_grpc_nor_the_embedded_cluster() -> None:
    assert {"grpc", "cryptography", "kubernetes"} & loaded("import dradriver.cli") == set()
