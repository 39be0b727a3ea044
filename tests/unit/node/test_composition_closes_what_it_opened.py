"""A start that fails halfway keeps no file of the node open."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from dradriver.node.errors import StateError
from dradriver.node.files import atomic
from dradriver.node.plugin import Plugin
from tests.unit.node.plugin_world import Node
from tests.unit.node.world import LampDriver


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def open_files(folder: Path) -> list[str]:
    """Names of the files below a folder that this process has open."""
    targets = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # this listing itself, or a file that another thread closes
            targets.append(path.readlink())
    return [path.name for path in targets if path.is_relative_to(folder)]


@pytest.mark.parametrize("name", ["claims.lock", "publisher.lock"])
async def test_a_lock_file_that_cannot_be_opened_is_reported(
    name: str, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_lock = atomic.open_lock

    def reject(path: Path) -> int:
        if path.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_lock(path)

    monkeypatch.setattr(atomic, "open_lock", reject)
    with pytest.raises(StateError, match=f"lock file .*{name}: cannot be opened"):
        await node.plugin().start()
    assert not open_files(node.root)


async def test_a_publisher_that_cannot_be_created_is_reported(node: Node) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no publisher")

    driver = LampDriver(node.hardware)
    plugin = Plugin(driver, node.api, node.config(), publisher=fail)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="no publisher"):
        await plugin.start()
    assert not open_files(node.root)
    assert driver._context is None
