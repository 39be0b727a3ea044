"""Each bitstream that the operator has not approved, or that is not what its claim says, is refused by name.

`REFUSED` is the table of attacks. In none of them a byte reaches the card.
"""

import base64
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import dradriver as dra
from dradriver.testing import list_config_errors
from dradriver_fpga import FpgaConfig, FpgaDriver
from dradriver_fpga.attach_errors import to_attach_error
from dradriver_fpga.bitstreams import BitstreamCache, BitstreamError, BitstreamSources, FailedBitstreams
from dradriver_fpga.card import FpgaCards, FpgaError
from dradriver_fpga.card.simulator import FpgaMemoryStore
from dradriver_fpga.configs import RequestedBitstream
from dradriver_fpga.programming import Programmer
from dradriver_fpga.settings import read_settings
from tests.drivers.fpga.bitstream_files import AFU, Bitstreams, make_gbs
from tests.drivers.fpga.nodes import INTERFACES, QuickHardware

KEY, OTHER_KEY = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
REGION, CARD = "pci-0000-3b-00-0-region-0", "pci-0000-3b-00-0"


@dataclass
class Site:
    """A node with a card, and everything from which it gets bitstreams.

    Attributes:
        folder: folder of the test.
        rules: `bitstreams` of the settings.
        data: what the web server sends.
        config_maps: their content by namespace and name.
    """

    folder: Path
    rules: dict[str, Any] = field(default_factory=dict)
    data: bytes = b""
    url: str = ""
    config_maps: dict[tuple[str, str], Mapping[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "images").mkdir()
        self.images = Bitstreams(self.folder / "images")
        self.hardware = QuickHardware(["pac"], store=FpgaMemoryStore(), speed=1e6)
        self.image = self.images.fitting("pac")

    @property
    def content(self) -> bytes:
        return self.image.path.read_bytes()

    def listed(self) -> dict[str, Any]:
        return {"digests": [self.image.sha256]}

    async def read_config_map(self, namespace: str, name: str) -> Mapping[str, bytes]:
        if (namespace, name) not in self.config_maps:
            raise BitstreamError(f"ConfigMap {namespace}/{name} does not exist", "NotFound")
        return self.config_maps[namespace, name]

    @asynccontextmanager
    async def programmer(self) -> AsyncIterator[Programmer]:
        rules = {"folder": str(self.folder / "images"), "urls": [f"{self.url}/ours/"], **self.rules}
        settings = read_settings(json.dumps({"bitstreams": rules}))
        sources = BitstreamSources(settings.bitstreams, self.read_config_map)
        cache = BitstreamCache(self.folder / "cache", settings.bitstreams, sources)
        async with FpgaCards(self.hardware) as cards:
            made = Programmer(cards, cache, FailedBitstreams(self.folder / "failed.json"), settings)
            yield made
            await made.close()

    async def program(self, change: Mapping[str, Any], device: str = REGION, namespace: str = "team-a") -> None:
        claimed = {"file": self.image.path.name, "sha256": self.image.sha256, **change}
        bitstream = msgspec.convert({k: v for k, v in claimed.items() if v is not None}, RequestedBitstream)
        async with self.programmer() as programmer:
            await programmer.ensure(device, bitstream, namespace)

    @property
    def programmed(self) -> list[str]:
        (card,) = self.hardware.cards()
        return [each.bitstream for each in card.regions if each.bitstream] + [card.bitstream] * bool(
            card.bitstream
        )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)

    async def serve(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/moved"):
            return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"})
        return web.Response(body=made.data)

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def sign(site: Site, key: Ed25519PrivateKey = KEY, interface: str = "", digest: str = "") -> dict[str, Any]:
    statement = bytes.fromhex(digest or site.image.sha256) + bytes.fromhex(interface)
    return {"signature": base64.b64encode(key.sign(statement)).decode()}


def unlisted(site: Site) -> dict[str, Any]:
    site.rules = {"digests": ["0" * 64]}
    return {}


def without_rules(_site: Site) -> dict[str, Any]:
    return {}


def unsigned(site: Site) -> dict[str, Any]:
    site.rules = {"keys": [PEM]}
    return {}


def signed_by_another(site: Site) -> dict[str, Any]:
    site.rules = {"keys": [PEM]}
    return sign(site, OTHER_KEY)


def signed_for_another_digest(site: Site) -> dict[str, Any]:
    site.rules = {"keys": [PEM]}
    return sign(site, digest="ab" * 32)


def signed_for_another_interface(site: Site) -> dict[str, Any]:
    """A signature for one interface, in a claim that states another one."""
    site.rules = {"keys": [PEM]}
    site.image = site.images.file(bytes(100))
    return {**sign(site, interface=INTERFACES[1]), "interfaceID": INTERFACES[0]}


def replayed_for_another_interface(site: Site) -> dict[str, Any]:
    """A bitstream that the author signed for the other shell."""
    site.rules = {"keys": [PEM]}
    site.image = site.images.fitting("pac", shell=1)
    return sign(site)


def header_of_another_interface(site: Site) -> dict[str, Any]:
    """The claim states the card's interface, the file's header another one."""
    site.image = site.images.fitting("pac", shell=1)
    site.rules = site.listed()
    return {"interfaceID": INTERFACES[0]}


def raw_bits_with_a_stated_interface(site: Site) -> dict[str, Any]:
    """The author's signature says nothing about the interface, and neither does the file."""
    site.rules = {"keys": [PEM]}
    site.image = site.images.file(bytes(100))
    return {**sign(site), "interfaceID": INTERFACES[0]}


def tampered_in_the_folder(site: Site) -> dict[str, Any]:
    site.rules = site.listed()
    site.image.path.write_bytes(site.content[:-1] + b"!")
    return {}


def tampered_in_the_download(site: Site) -> dict[str, Any]:
    site.rules, site.data = site.listed(), site.content[:-1] + b"!"
    return {"file": None, "url": f"{site.url}/ours/a.gbs"}


def truncated_in_the_download(site: Site) -> dict[str, Any]:
    site.rules, site.data = site.listed(), site.content[:-1]
    return {"file": None, "url": f"{site.url}/ours/a.gbs"}


def truncated_header(site: Site) -> dict[str, Any]:
    site.image = site.images.file(make_gbs(INTERFACES[0], AFU, b"")[:-1])
    site.rules = site.listed()
    return {}


def wrong_digest(site: Site) -> dict[str, Any]:
    site.rules = {"digests": ["ab" * 32]}
    return {"sha256": "ab" * 32}


def oversized(site: Site) -> dict[str, Any]:
    site.rules = {**site.listed(), "largestBytes": 1000}
    return {}


def oversized_download(site: Site) -> dict[str, Any]:
    site.rules, site.data = {**site.listed(), "largestBytes": 1000}, site.content
    return {"file": None, "url": f"{site.url}/ours/a.gbs"}


def config_map_of_another_namespace(site: Site) -> dict[str, Any]:
    site.rules = site.listed()
    site.config_maps["team-b", "matrix"] = {"m.gbs": site.content}
    return {"file": None, "configMap": {"name": "matrix", "key": "m.gbs"}}


def link_out_of_the_folder(site: Site) -> dict[str, Any]:
    site.rules = site.listed()
    (site.folder / "secret").write_bytes(site.content)
    (site.folder / "images/link").symlink_to(site.folder / "secret")
    return {"file": "link"}


def fifo(site: Site) -> dict[str, Any]:
    site.rules = site.listed()
    os.mkfifo(site.folder / "images/fifo")
    return {"file": "fifo"}


def another_url(site: Site) -> dict[str, Any]:
    site.rules, site.data = site.listed(), site.content
    return {"file": None, "url": f"{site.url}/theirs/a.gbs"}


def redirect_to_metadata(site: Site) -> dict[str, Any]:
    site.rules = site.listed()
    return {"file": None, "url": f"{site.url}/ours/moved"}


REFUSED: Mapping[Callable[[Site], dict[str, Any]], tuple[str, str]] = {
    without_rules: ("NotListed", "is not in bitstreams.digests of this node's settings"),
    unlisted: ("NotListed", "is not in bitstreams.digests of this node's settings"),
    unsigned: ("NotSigned", "bitstream.signature of .* is missing"),
    signed_by_another: ("NotTrusted", "is not by a key of bitstreams.keys"),
    signed_for_another_digest: ("NotTrusted", "another digest"),
    signed_for_another_interface: ("NotTrusted", "another interfaceID"),
    replayed_for_another_interface: ("Incompatible", "is for interface"),
    header_of_another_interface: ("Incompatible", "is for interface"),
    raw_bits_with_a_stated_interface: ("Incompatible", "does not name its interface"),
    tampered_in_the_folder: ("WrongDigest", "has the sha256"),
    tampered_in_the_download: ("WrongDigest", "has the sha256"),
    truncated_in_the_download: ("WrongDigest", "has the sha256"),
    truncated_header: ("Unreadable", "ends within the header"),
    wrong_digest: ("WrongDigest", "has the sha256"),
    oversized: ("TooLarge", "is larger than 1000 bytes"),
    oversized_download: ("TooLarge", "is larger than 1000 bytes"),
    config_map_of_another_namespace: ("NotFound", "ConfigMap team-a/matrix does not exist"),
    link_out_of_the_folder: ("Refused", "is outside of the folder"),
    fifo: ("Unreadable", "is not a regular file"),
    another_url: ("Refused", "not allowed by the settings"),
    redirect_to_metadata: ("Refused", "169.254.169.254/latest/meta-data: not allowed by the settings"),
}
"""Attacks, with the reason of the claim's condition and words of its message."""


@pytest.mark.parametrize("attack", REFUSED, ids=lambda attack: attack.__name__)
async def test_an_attack_is_refused_and_blamed_on_its_claim(
    site: Site, attack: Callable[[Site], dict[str, Any]]
) -> None:
    reason, message = REFUSED[attack]
    change = attack(site)
    with pytest.raises((BitstreamError, FpgaError), match=message) as refusal:
        await site.program(change)
    assert isinstance(refusal.value, BitstreamError | FpgaError)
    told = to_attach_error(refusal.value)
    assert (told.reason, told.device_is_bad) == (reason, False)
    assert not site.programmed


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"file": "../a.gbs"}, "file must be a relative path without `..`"),
        ({"file": "/etc/shadow"}, "file must be a relative path without `..`"),
        ({"file": None, "url": "https://h/ours/%2e%2e/a"}, "url must have no dot segment"),
        ({"file": None, "url": "https://h/ours/x%2f..%2fa"}, "url must have no %2f"),
        ({"signature": "!"}, "signature must be 64 bytes in base64"),
        ({"signature": base64.b64encode(bytes(63)).decode()}, "signature must be 64 bytes in base64"),
    ],
)
def test_the_webhook_refuses_what_no_node_accepts(change: dict[str, Any], rule: str) -> None:
    claimed = {"file": "a.gbs", "sha256": "ab" * 32, **change}
    bitstream = {key: value for key, value in claimed.items() if value is not None}
    parameters = {"apiVersion": FpgaConfig.api_version, "kind": FpgaConfig.kind, "bitstream": bitstream}
    assert rule in "; ".join(list_config_errors(FpgaDriver, parameters))


async def test_a_file_that_is_changed_in_the_cache_is_fetched_again(site: Site) -> None:
    site.rules = site.listed()
    await site.program({})
    (cached,) = (site.folder / "cache").iterdir()
    cached.write_bytes(cached.read_bytes()[:-1] + b"!")
    site.hardware.invalidate("0000:3b:00.0")
    await site.program({})
    assert site.programmed == [site.image.sha256]


async def test_a_cached_file_of_one_namespace_is_not_given_to_another(site: Site) -> None:
    """The digest alone is no permission: ResourceSlices publish the digests of programmed regions."""
    site.rules = site.listed()
    site.config_maps["team-a", "matrix"] = {"m.gbs": site.content}
    change = {"file": None, "configMap": {"name": "matrix", "key": "m.gbs"}}
    await site.program(change)
    site.hardware.invalidate("0000:3b:00.0")
    with pytest.raises(BitstreamError, match="team-b/matrix does not exist"):
        await site.program(change, namespace="team-b")
    assert not site.programmed


@pytest.mark.parametrize("approve", ["listed", "signed", "signed for the interface", "unsigned", "both"])
async def test_an_approved_bitstream_is_programmed(site: Site, approve: str) -> None:
    rules: dict[str, dict[str, Any]] = {
        "listed": {"digests": [site.image.sha256.upper()]},
        "signed": {"keys": [PEM]},
        "signed for the interface": {"keys": [PEM]},
        "unsigned": {"allowUnsigned": True},
        "both": {"keys": [PEM], "digests": [site.image.sha256]},
    }
    site.rules = rules[approve]
    if approve == "signed for the interface":
        site.image = site.images.file(bytes(100))
        await site.program({**sign(site, interface=INTERFACES[0]), "interfaceID": INTERFACES[0]})
    else:
        await site.program(sign(site) if approve == "signed" else {})
    assert site.programmed == [site.image.sha256]


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ({"keys": [PEM]}, False),
        ({"keys": [PEM], "policy": [{"namespaces": ["*"]}]}, False),
        ({"keys": [PEM], "policy": [{"namespaces": ["team-a"], "types": ["card"]}]}, True),
        ({"digests": ["shell"]}, True),
    ],
)
async def test_a_signature_alone_does_not_make_a_file_a_shell(
    site: Site, rules: dict[str, Any], *, allowed: bool
) -> None:
    """Writing a bitstream of a region as a shell can make the card unusable."""
    site.image = site.images.shell("pac", 1)
    site.rules = rules if "keys" in rules else site.listed()
    change = sign(site) if "keys" in rules else {}
    if allowed:
        await site.program(change, CARD)
        assert site.programmed == [site.image.sha256]
        return
    with pytest.raises(BitstreamError) as refusal:
        await site.program(change, CARD)
    assert refusal.value.reason == "NotAllowed"
    assert not site.programmed


def test_keys_and_unsigned_bitstreams_exclude_each_other() -> None:
    with pytest.raises(dra.UsageError, match=r"bitstreams\.allowUnsigned: must be false"):
        read_settings(json.dumps({"bitstreams": {"keys": [PEM], "allowUnsigned": True}}))


def test_a_digest_of_the_settings_is_a_digest() -> None:
    with pytest.raises(dra.UsageError, match=r"digests\[0\]"):
        read_settings(json.dumps({"bitstreams": {"digests": ["abc"]}}))
