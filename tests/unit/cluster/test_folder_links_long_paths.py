"""A data folder whose path is too long for sockets: nodes use a short symbolic link."""

import tempfile
from pathlib import Path

import pytest

from dradriver.cluster.folder import DataFolder
from dradriver.errors import UsageError


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    links = tmp_path / "tmp"
    links.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(links))
    return tmp_path / ("deep" * 20)


def test_a_node_is_reached_through_a_link_while_the_cluster_runs(deep: Path) -> None:
    folder = DataFolder(deep)
    folder.lock()
    folder.node("node-1").mkdir(parents=True)
    assert (deep / "nodes" / "node-1").is_dir()
    assert folder.node("node-1") != deep / "nodes" / "node-1"
    folder.unlock()
    assert not list(Path(tempfile.gettempdir()).iterdir())


def test_a_leftover_link_of_a_killed_process_is_reused(deep: Path) -> None:
    killed = DataFolder(deep)
    killed.lock()
    killed.node("node-1").mkdir(parents=True)
    link = next(Path(tempfile.gettempdir()).iterdir())
    killed.unlock()
    link.symlink_to(deep)
    folder = DataFolder(deep)
    folder.lock()
    assert folder.node("node-1").is_dir()
    folder.unlock()


def test_a_foreign_link_is_rejected(deep: Path, tmp_path: Path) -> None:
    folder = DataFolder(deep)
    folder.lock()
    link = next(Path(tempfile.gettempdir()).iterdir())
    folder.unlock()
    link.symlink_to(tmp_path)
    with pytest.raises(UsageError, match="choose a folder with a shorter path"):
        DataFolder(deep).lock()
    link.unlink()
    again = DataFolder(deep)
    again.lock()  # the failed lock released the folder
    again.unlock()


def test_a_short_folder_needs_no_link() -> None:
    folder = DataFolder(Path("/tmp/x"))
    assert folder.node("node-1") == Path("/tmp/x/nodes/node-1")
