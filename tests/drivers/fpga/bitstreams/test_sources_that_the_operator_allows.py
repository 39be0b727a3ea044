"""Bitstreams from a folder, a ConfigMap or a URL: allowed sources only, cached by digest, in bounded space."""

import asyncio
import base64
import contextlib
import fcntl
import hashlib
import json
import os
import posixpath
import re
import socket
import subprocess
import sys
import threading
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import pytest
import yarl
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import example, given
from hypothesis import strategies as st

import dradriver as dra
from dradriver.kube.resources import CONFIG_MAPS
from dradriver.testing import list_config_errors
from dradriver_fpga import FpgaConfig, FpgaDriver
from dradriver_fpga.bitstreams import BitstreamCache, BitstreamError, BitstreamSources
from dradriver_fpga.bitstreams.addresses import CheckedResolver
from dradriver_fpga.bitstreams.download import is_allowed
from dradriver_fpga.configs import ConfigMapKey, RequestedBitstream
from dradriver_fpga.settings import BitstreamRules, read_settings
from tests.drivers.fpga.nodes import Node, pod
from tests.unit.conditions.fabric import Lab

DATA = b"bits" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


async def no_config_map(_namespace: str, _name: str) -> Mapping[str, bytes]:
    raise AssertionError


class BitstreamServer:
    """A web server of the test's."""

    def __init__(self) -> None:
        self.wait_for_call: list[str] = []
        self.raw: list[str] = []
        self.url = ""
        self.location = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.wait_for_call.append(request.path)
        self.raw.append(request.raw_path)
        if request.path.endswith("/moved"):
            return web.Response(status=302, headers={"Location": self.location})
        if request.path.endswith("/absent"):
            return web.Response(status=404)
        return web.Response(body=DATA)


@pytest.fixture
async def site() -> AsyncIterator[BitstreamServer]:
    made = BitstreamServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", made.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def cache(folder: Path, rules: BitstreamRules) -> BitstreamCache:
    return BitstreamCache(folder / "cache", rules, BitstreamSources(rules, no_config_map))


def kept(folder: Path) -> set[str]:
    """The digests of the cached files, and the names of others."""
    return {path.name.partition("-")[0] for path in (folder / "cache").iterdir()}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.gbs").write_bytes(DATA)
    return folder


async def test_a_file_is_kept_and_not_read_again(tmp_path: Path, images: Path) -> None:
    store = cache(tmp_path, BitstreamRules(folder=str(images)))
    wanted = RequestedBitstream(file="a.gbs", sha256=DIGEST.upper())
    async with store.file(wanted, "default") as path:
        assert path.read_bytes() == DATA
    (images / "a.gbs").unlink()
    async with store.file(wanted, "default") as path:
        assert path.read_bytes() == DATA
    assert kept(tmp_path) == {DIGEST}


@pytest.mark.parametrize("name", ["link", "folder", "fifo"])
async def test_a_folder_gives_regular_files_of_its_own_only(tmp_path: Path, images: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(DATA)
    (images / "link").symlink_to(tmp_path / "secret")
    (images / "folder").mkdir()
    os.mkfifo(images / "fifo")
    store = cache(tmp_path, BitstreamRules(folder=str(images)))
    with pytest.raises(BitstreamError, match=r"is outside of|is not a regular file"):
        async with store.file(RequestedBitstream(file=name, sha256=DIGEST), "default"):
            pass
    assert kept(tmp_path) == set()


async def test_a_config_map_that_is_mounted_is_a_folder(tmp_path: Path) -> None:
    """The kubelet mounts one as links to links within the folder."""
    mounted = tmp_path / "mounted"
    (mounted / "..2026").mkdir(parents=True)
    (mounted / "..2026/a.gbs").write_bytes(DATA)
    (mounted / "..data").symlink_to("..2026")
    (mounted / "a.gbs").symlink_to("..data/a.gbs")
    async with cache(tmp_path, BitstreamRules(folder=str(mounted))).file(
        RequestedBitstream(file="a.gbs", sha256=DIGEST), "default"
    ) as path:
        assert path.read_bytes() == DATA


async def test_a_url_is_downloaded_only_if_the_settings_allow_it(tmp_path: Path, site: BitstreamServer) -> None:
    store = cache(tmp_path, BitstreamRules(urls=(f"{site.url}/images/",)))
    async with store.file(RequestedBitstream(url=f"{site.url}/images/a", sha256=DIGEST), "default") as path:
        assert path.read_bytes() == DATA
    for assert_rejected in ("/other/a", "/images"):
        with pytest.raises(BitstreamError, match="not allowed by"):
            async with store.file(
                RequestedBitstream(url=f"{site.url}{assert_rejected}x", sha256="0" * 64), "default"
            ):
                pass
    assert site.wait_for_call == ["/images/a"]


@pytest.mark.parametrize(
    "location",
    [
        *("file:///etc/passwd", "https://127.0.0.1/images/a", "/other/a", "http://localhost/images/a"),
        *(
            "../other/a",
            "x%2f..%2f..%2fother/a",
            "//evil.example.com/images/a",
            "\\\\evil.example.com/images/a",
        ),
    ],
)
async def test_a_redirect_leads_nowhere_else(tmp_path: Path, site: BitstreamServer, location: str) -> None:
    site.location = location
    store = cache(tmp_path, BitstreamRules(urls=(f"{site.url}/images/",)))
    with pytest.raises(BitstreamError, match="not allowed by"):
        async with store.file(RequestedBitstream(url=f"{site.url}/images/moved", sha256=DIGEST), "default"):
            pass


@pytest.mark.parametrize(
    ("address", "usable"),
    [
        ("169.254.169.254", False),
        ("::ffff:169.254.169.254", False),
        ("fe80::1%eth0", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", True),
        ("2001:db8::1", True),
    ],
)
async def test_a_name_of_a_metadata_service_is_not_resolved(address: str, *, usable: bool) -> None:
    class Dns(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            return [ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)]

        async def close(self) -> None:
            pass

    resolver = CheckedResolver(Dns())
    if usable:
        assert [each["host"] for each in await resolver.resolve("images.example.com", 443)] == [address]
        return
    with pytest.raises(OSError, match=r"images\.example\.com has the address"):
        await resolver.resolve("images.example.com", 443)


async def test_a_download_checks_addresses(
    tmp_path: Path, site: BitstreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dradriver_fpga.bitstreams.addresses.is_usable", lambda _: False)
    named = site.url.replace("127.0.0.1", "localhost")
    store = cache(tmp_path, BitstreamRules(urls=(named,)))
    with pytest.raises(BitstreamError, match="localhost has the address"):
        async with store.file(RequestedBitstream(url=f"{named}/a", sha256=DIGEST), "default"):
            pass
    assert site.wait_for_call == []


async def test_redirects_without_end_have_one(tmp_path: Path, site: BitstreamServer) -> None:
    site.location = "/images/moved"
    store = cache(tmp_path, BitstreamRules(urls=(f"{site.url}/images/",)))
    with pytest.raises(BitstreamError, match="more than 5 redirects"):
        async with store.file(RequestedBitstream(url=f"{site.url}/images/moved", sha256=DIGEST), "default"):
            pass


async def test_an_error_of_the_server_is_reported(tmp_path: Path, site: BitstreamServer) -> None:
    store = cache(tmp_path, BitstreamRules(urls=(site.url,)))
    with pytest.raises(BitstreamError, match="returned 404"):
        async with store.file(RequestedBitstream(url=f"{site.url}/absent", sha256=DIGEST), "default"):
            pass


async def test_a_rejected_file_is_not_kept(tmp_path: Path, images: Path) -> None:
    wanted = RequestedBitstream(file="a.gbs", sha256=DIGEST)
    with pytest.raises(BitstreamError) as large:
        async with cache(tmp_path, BitstreamRules(folder=str(images), largest_bytes=3999)).file(wanted, "x"):
            pass
    with pytest.raises(BitstreamError) as wrong:
        async with cache(tmp_path, BitstreamRules(folder=str(images))).file(
            RequestedBitstream(file="a.gbs", sha256="0" * 64), "x"
        ):
            pass
    assert (large.value.reason, wrong.value.reason) == ("TooLarge", "WrongDigest")
    assert kept(tmp_path) == set()


async def test_a_file_that_was_refused_is_not_fetched_again_for_each_try_of_its_pod(
    tmp_path: Path, site: BitstreamServer
) -> None:
    store = cache(tmp_path, BitstreamRules(urls=(site.url,)))
    wrong = RequestedBitstream(url=f"{site.url}/a", sha256="0" * 64)
    for _ in range(3):
        with pytest.raises(BitstreamError) as told:
            async with store.file(wrong, "x"):
                pass
        assert told.value.reason == "WrongDigest"
    assert site.wait_for_call == ["/a"]
    async with store.file(RequestedBitstream(url=f"{site.url}/a", sha256=DIGEST), "x"):
        assert site.wait_for_call == ["/a", "/a"]


async def test_a_file_that_rots_is_fetched_again(tmp_path: Path, images: Path) -> None:
    store = cache(tmp_path, BitstreamRules(folder=str(images)))
    wanted = RequestedBitstream(file="a.gbs", sha256=DIGEST)
    async with store.file(wanted, "x") as path:
        pass
    path.write_bytes(b"rot")
    async with store.file(wanted, "x") as path:
        assert path.read_bytes() == DATA


async def test_the_least_recently_used_file_is_removed_and_files_in_use_are_kept(
    tmp_path: Path, images: Path
) -> None:
    def wanted(number: int) -> RequestedBitstream:
        data = bytes([number]) * 1000
        (images / str(number)).write_bytes(data)
        return RequestedBitstream(file=str(number), sha256=hashlib.sha256(data).hexdigest())

    store = cache(tmp_path, BitstreamRules(folder=str(images), cache_bytes=2500))
    first, second, third, fourth = map(wanted, range(4))
    for each, when in ((first, 1), (second, 2)):
        async with store.file(each, "x") as path:
            pass
        os.utime(path, (when, when))
    async with store.file(first, "x"), store.file(third, "x"):
        assert kept(tmp_path) == {first.digest, third.digest}
        async with store.file(fourth, "x"):
            assert kept(tmp_path) == {first.digest, third.digest, fourth.digest}


async def test_an_unfinished_file_of_a_killed_process_is_removed(tmp_path: Path, images: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from dradriver_fpga.bitstreams import BitstreamCache;"
        "cache = BitstreamCache(Path(sys.argv[1]), None, None); cache._create_unfinished().write(b'half');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program, str(tmp_path / "cache")], check=False
    )
    (left,) = kept(tmp_path)
    assert left.endswith(".part")
    async with cache(tmp_path, BitstreamRules(folder=str(images))).file(
        RequestedBitstream(file="a.gbs", sha256=DIGEST), "x"
    ):
        assert kept(tmp_path) == {DIGEST}


async def test_fetches_at_once_do_not_remove_each_others_files(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second fetch begins between the creation of the first one's file and its lock."""
    lock, created = fcntl.flock, threading.Event()
    store = cache(tmp_path, BitstreamRules(folder=str(images)))

    def flock(file: IO[bytes], operation: int) -> None:
        if operation == fcntl.LOCK_EX and not created.is_set():
            created.set()
            store._create_unfinished().close()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    async with store.file(RequestedBitstream(file="a.gbs", sha256=DIGEST), "x") as path:
        assert path.read_bytes() == DATA


async def test_a_pod_finds_its_bitstream_in_a_config_map_of_its_namespace(lab: Lab, node: Node) -> None:
    image = node.images.fitting("pac")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "matrix"},
        "binaryData": {"m.gbs": base64.b64encode(image.path.read_bytes()).decode()},
    }

    await lab.client.create(CONFIG_MAPS, body, "default", into=dict)
    async with lab.scheduler(), node.running(lab):
        where = {"configMap": {"name": "matrix", "key": "m.gbs"}, "sha256": image.sha256}
        await pod(lab, "pod-1", where)
        await lab.bound("pod-1")
    assert node.programmed == 1


ALLOWED = ["https://images.example.com/approved/", "http://[2001:db8::1]:8080/fpga"]


@pytest.mark.parametrize(
    "url",
    [
        "https://images.example.com/approved/x%2f..%2f..%2fevil",
        "https://images.example.com/approved/x%2F..%2F..%2Fevil",
        "https://images.example.com/approved/%2e%2e/evil",
        "https://images.example.com/approved/.%2e/evil",
        "https://images.example.com/approved/%252e%252e%252fevil",
        "https://images.example.com/approved/../evil",
        "https://images.example.com/approved/./x",
        "https://images.example.com/approved/..;/evil",
        "https://images.example.com/approved/..%3b/evil",
        "https://images.example.com/approved/x\\..\\..\\evil",
        "https://images.example.com/approved/x%5c..%5c..%5cevil",
        "https://images.example.com/approved/%c0%ae%c0%ae%c0%afevil",
        "https://images.example.com/approved/%ef%bc%8e%ef%bc%8e%ef%bc%8fevil",
        "https://images.example.com/approved/x%00.gbs",
        "https://images.example.com/approved/x%0d%0aHost:%20evil",
        "https://images.example.com/approved/.\t./evil",
        "https://images.example.com/approved/x%zz",
        "https://images.example.com/approvedevil/x",
        "https://images.example.com\\@evil.example.com/approved/x",
        "https://images.example.com@evil.example.com/approved/x",
        "https://@images.example.com/approved/x",
        "https://evil.example.com#@images.example.com/approved/x",
        "https://evil.example.com\\images.example.com/approved/x",
        "https://images.example.com:444/approved/x",
        "https://images.example.com./approved/x",
        "https://images.example.com:/approved/x",
        "https://images%2eexample.com/approved/x",
        "http://images.example.com/approved/x",
        "https:/images.example.com/approved/x",
        "https:images.example.com/approved/x",
        "//images.example.com/approved/x",
        " https://images.example.com/approved/x",
        "https://images.example.com/approved/x#/../../evil",
        "https://ｉmages.example.com/approved/x",
        "http://[2001:db8::1]/fpga/x",
        "http://[2001:db8::1%25eth0]:8080/fpga/x",
    ],
)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    assert not is_allowed(url, ALLOWED)


@pytest.mark.parametrize(
    "url",
    [
        "https://images.example.com/approved/x",
        "HTTPS://Images.Example.com:443/approved/a/b.gbs?token=a%2Fb&x=..",
        "https://images.example.com/approved/name%20with%20spaces-%C3%BC.gbs",
        "https://images.example.com/approved/.hidden/a..b",
        "http://[2001:DB8::1]:8080/fpga/x",
        "http://[2001:db8::1]:8080/fpga",
    ],
)
def test_a_url_below_a_prefix_is_allowed_however_it_is_spelled(url: str) -> None:
    assert is_allowed(url, ALLOWED)


TRICKS = st.sampled_from(
    [
        *(
            "a",
            "b.gbs",
            "approved",
            "evil",
            "..",
            ".",
            "...",
            "",
            "%2e",
            "%2E%2e",
            ".%2e",
            "%2f",
            "%5c",
            "\\",
            "/",
        ),
        *(
            "..;",
            ";x=..",
            "%3b",
            "%25",
            "%252e%252e",
            "%00",
            "%c0%ae",
            "%c0%af",
            "%ef%bc%8f",
            "%e2%80%a5",
            "\u2025",
        ),
        *("\t", "\n", " ", "%20", "@", "%40", ":", "?", "%3f", "#", "%23", "\uff0f", "\uff0e\uff0e", "%u002f"),
    ]
)
ORIGINS = st.sampled_from(
    [
        *("https://images.example.com", "https://images.example.com:443", "HTTPS://IMAGES.example.com", "//"),
        *("https://images.example.com@evil", "https://evil@images.example.com", "https://evil", "http://evil/"),
        *("https://images.example.com\\.evil", "https:\\\\images.example.com", "https:///images.example.com"),
        *("https://images.example.com.evil", "https://images.example.com:80", "https://images.example.com%2f"),
    ]
)


def readings(url: str) -> Iterator[tuple[str, str]]:
    """Host and path of a URL, as programs read it that are more or less careful than others."""
    for text in {url, url.replace("\\", "/"), re.sub("[\t\r\n]", "", url).strip()}:
        with contextlib.suppress(ValueError):
            parts = urlsplit(text)
            path = parts.path
            for _ in range(4):
                for spelled in {path, path.replace("\\", "/"), unicodedata.normalize("NFKC", path)}:
                    whole = spelled.partition("\0")[0]
                    bare = re.sub(";[^/]*", "", whole)
                    yield parts.hostname or "", posixpath.normpath(re.sub("/+", "/", whole))
                    yield parts.hostname or "", posixpath.normpath(re.sub("/+", "/", bare))
                path = unquote(path, errors="replace")
        with contextlib.suppress(ValueError):
            yielded = yarl.URL(text)
            yield yielded.host or "", yielded.path


@given(ORIGINS, st.lists(TRICKS, max_size=7), st.sampled_from(["", "/", "%2f"]))
@example("https://images.example.com", ["approved", "x%2f..%2f..%2fevil"], "/")
def test_an_allowed_url_is_below_its_prefix_for_every_reader(origin: str, path: list[str], glue: str) -> None:
    url = f"{origin}/approved/{glue.join(path)}"
    if is_allowed(url, ["https://images.example.com/approved/"]):
        for host, read in readings(url):
            assert host == "images.example.com"
            assert f"{read}/".startswith("/approved/"), url


async def test_a_url_reaches_the_server_as_it_was_compared(tmp_path: Path, site: BitstreamServer) -> None:
    store = cache(tmp_path, BitstreamRules(urls=(f"{site.url}/images/",)))
    async with store.file(
        RequestedBitstream(url=f"{site.url}/images/a%20b%7E?x=%41", sha256=DIGEST), "default"
    ):
        assert site.raw == ["/images/a%20b%7E?x=%41"]


@pytest.mark.parametrize(
    "prefix",
    ["images.example.com/", "https://h/a%2fb/", "https://me@h/", "https://h/a?b", "ftp://h/", "https://h/../a"],
)
def test_a_prefix_that_can_be_read_in_two_ways_is_a_mistake_in_the_settings(prefix: str) -> None:
    with pytest.raises(dra.UsageError, match=r"bitstreams\.urls\[1\]"):
        read_settings(json.dumps({"bitstreams": {"urls": ["https://h/", prefix]}}))


@pytest.mark.parametrize(
    ("bitstream", "rule"),
    [
        ({"sha256": "abc", "file": "a"}, "64 hex digits"),
        ({"sha256": DIGEST}, "exactly one of"),
        ({"sha256": DIGEST, "file": "a", "url": "https://example.com/a"}, "exactly one of"),
        ({"sha256": DIGEST, "file": "../a"}, "relative path"),
        ({"sha256": DIGEST, "file": "/etc/passwd"}, "relative path"),
        ({"sha256": DIGEST, "url": "ftp://example.com/a"}, "http:// or https://"),
        ({"sha256": DIGEST, "url": "https://me:secret@example.com/a"}, "user or password"),
        ({"sha256": DIGEST, "url": "https://[::1/a"}, "http:// or https:// and a host"),
        ({"sha256": DIGEST, "url": "https://h/a%2fb"}, "%2f"),
        ({"sha256": DIGEST, "url": "https://h/a/../b"}, "dot segment"),
        ({"sha256": DIGEST, "file": "a", "interfaceID": "A b"}, "32 hex digits"),
        ({"sha256": DIGEST, "file": "a", "interfaceId": "x"}, "interfaceId"),
    ],
)
def test_errors_in_parameters_are_reported_before_a_node_reads_them(
    bitstream: dict[str, str], rule: str
) -> None:
    parameters = {"apiVersion": FpgaConfig.api_version, "kind": FpgaConfig.kind, "bitstream": bitstream}
    assert rule in "; ".join(list_config_errors(FpgaDriver, parameters))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bitstreams: {folders: a}", "folders"),
        ("bitstreams: {keys: [nonsense]}", "not a public key"),
        ("removedSeconds: -1", "removedSeconds"),
        ("a: [", "invalid YAML"),
        ("- a", "Expected"),
    ],
)
def test_errors_in_the_settings_are_reported_at_the_start(text: str, rule: str) -> None:
    with pytest.raises(dra.UsageError, match=r"^\$FPGA_SETTINGS: ") as told:
        FpgaDriver(text)
    assert rule in str(told.value)


def test_a_key_of_a_config_map_is_named_in_messages() -> None:
    assert (
        RequestedBitstream(config_map=ConfigMapKey(name="a", key="b"), sha256=DIGEST).location
        == "key b of ConfigMap a"
    )
