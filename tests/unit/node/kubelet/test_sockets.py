"""Socket names fit and name their instance, and stale sockets are removed."""

import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver.errors import UsageError
from dradriver.node.kubelet.sockets import MAX_PATH, Sockets, make_room

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
KUBELET = Path("/var/lib/kubelet")
LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
DRIVERS = st.lists(LABEL, min_size=1, max_size=6).map(".".join).filter(lambda name: len(name) <= 63)


def of(driver: str, pod_uid: str = "", root: Path = KUBELET) -> Sockets:
    return Sockets.of(driver, root / "plugins_registry", root / "plugins", pod_uid)


@contextmanager
def listening(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        server.listen()
        yield


def leave_stale(path: Path) -> None:
    with listening(path):
        pass


def test_the_usual_names() -> None:
    sockets = of("gpu.example.com")
    assert sockets.registrar == KUBELET / "plugins_registry/gpu.example.com-reg.sock"
    assert sockets.service == KUBELET / "plugins/gpu.example.com/dra.sock"


def test_with_a_pod_uid_both_names_carry_it() -> None:
    sockets = of("gpu.example.com", UID)
    assert sockets.registrar == KUBELET / f"plugins_registry/gpu.example.com-{UID}-reg.sock"
    assert sockets.service == KUBELET / f"plugins/gpu.example.com/dra-{UID}.sock"


@given(driver=DRIVERS, pod_uid=st.sampled_from(["", UID, "0" * 32]), depth=st.integers(0, 40))
def test_every_name_fits_and_is_its_own(driver: str, pod_uid: str, depth: int) -> None:
    root = Path("/" + "k" * depth)
    sockets, other = of(driver, pod_uid, root), of(driver, UID[::-1], root)
    for path in (sockets.registrar, sockets.service):
        assert len(bytes(path)) <= MAX_PATH
    assert {sockets.registrar, sockets.service}.isdisjoint({other.registrar, other.service})
    assert sockets.registrar.parent == root / "plugins_registry"
    assert root / "plugins" in sockets.service.parents


@given(driver=DRIVERS, pod_uid=st.sampled_from(["", UID]), depth=st.integers(0, 40))
def test_an_instance_recognizes_the_sockets_of_others_of_its_driver(
    driver: str, pod_uid: str, depth: int
) -> None:
    root = Path("/" + "k" * depth)
    sockets = of(driver, pod_uid, root)

    def recognized(path: Path) -> bool:
        return any(
            path.parent == d and p.fullmatch(path.name) for d, p in of(driver, "", root).instance_patterns
        )

    assert recognized(sockets.registrar)
    assert recognized(sockets.service)


def test_a_directory_that_is_too_long_is_named_with_the_limit() -> None:
    with pytest.raises(
        UsageError, match=r"registry directory /k+/plugins_registry: must have at most .* bytes for a socket"
    ):
        of("gpu.example.com", root=Path("/" + "k" * 90))


def test_stale_sockets_of_the_same_driver_are_found_live_and_foreign_ones_are_not(tmp_path: Path) -> None:
    mine = of("gpu.example.com", root=tmp_path)
    stale, live = of("gpu.example.com", UID, tmp_path), of("gpu.example.com", "0" * 32, tmp_path)
    foreign = of("gpu.example.com.other", root=tmp_path)
    for path in (stale.registrar, stale.service, foreign.registrar):
        leave_stale(path)
    with listening(live.registrar), listening(live.service):
        assert set(mine.find_stale()) == {stale.registrar, stale.service}


def test_room_is_made_by_taking_a_stale_socket_away(tmp_path: Path) -> None:
    leave_stale(tmp_path / "a.sock")
    make_room(tmp_path / "a.sock")
    assert not (tmp_path / "a.sock").exists()


def test_a_socket_that_is_served_is_not_taken_away(tmp_path: Path) -> None:
    with listening(tmp_path / "a.sock"), pytest.raises(UsageError, match="already running"):
        make_room(tmp_path / "a.sock")
    assert (tmp_path / "a.sock").exists()


def test_a_file_in_the_way_is_not_taken_away(tmp_path: Path) -> None:
    (tmp_path / "a.sock").write_text("precious")
    with pytest.raises(UsageError, match=re.escape("exists and is not a socket")):
        make_room(tmp_path / "a.sock")
