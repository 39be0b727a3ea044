"""`clear_data_folder` removes only the state of a cluster that does not run."""

from pathlib import Path
from typing import NoReturn

import pytest

from dradriver.cluster.clearing import clear_data_folder
from dradriver.cluster.folder import DataFolder
from dradriver.errors import UsageError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a cluster that ran."""
    path = tmp_path / "data"
    (path / "apiserver").mkdir(parents=True)
    (path / "apiserver/token.key").touch()
    (path / "nodes/node-1/plugins").mkdir(parents=True)
    (path / "kubeconfig").touch()
    (path / "pools.log").touch()
    (path / "lock").touch()
    return path


def test_the_state_is_removed_and_each_part_is_named(data: Path) -> None:
    assert clear_data_folder(data) == [
        f"{data}/pools.log (log)",
        f"{data}/nodes (prepared claims, CDI specs and logs of the drivers)",
        f"{data}/kubeconfig (the administrator's kubeconfig)",
        f"{data}/apiserver (all objects and credentials)",
    ]
    assert [path.name for path in data.iterdir()] == ["lock"]
    assert clear_data_folder(data) == []


def test_other_files_in_the_folder_stay(data: Path) -> None:
    (data / "notes.txt").write_text("mine")
    (data / "simulation").symlink_to(data.parent)
    clear_data_folder(data)
    assert sorted(path.name for path in data.iterdir()) == ["lock", "notes.txt"]
    assert data.parent.is_dir()


def test_a_missing_or_empty_folder_has_nothing_to_remove(tmp_path: Path) -> None:
    assert clear_data_folder(tmp_path) == []
    assert clear_data_folder(tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "present",
    [["photo.jpg"], ["lock", "photo.jpg"], ["nodes", "kubeconfig"], ["lock", "mail.log"]],
)
def test_a_folder_that_is_not_a_clusters_is_not_touched(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match="is not the data folder of a cluster, so nothing is removed"):
        clear_data_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(present)


def test_a_removal_that_was_interrupted_is_continued(data: Path) -> None:
    (data / "apiserver/token.key").unlink()
    (data / "kubeconfig").unlink()
    assert len(clear_data_folder(data)) == 3


def test_the_folder_of_a_running_cluster_is_not_touched(data: Path) -> None:
    running = DataFolder(data)
    running.lock()
    try:
        with pytest.raises(UsageError, match="another cluster runs in it"):
            clear_data_folder(data)
    finally:
        running.unlock()
    assert (data / "apiserver").is_dir()


def test_a_folder_that_cannot_be_read_is_an_error(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def iterdir(path: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(UsageError, match=f"--fresh: {data}: Permission denied"):
        clear_data_folder(data)


def test_a_link_to_the_folder_of_a_cluster_stays_and_the_state_behind_it_is_removed(
    data: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(data)
    assert len(clear_data_folder(link)) == 4
    assert link.is_symlink()
    assert [path.name for path in data.iterdir()] == ["lock"]
