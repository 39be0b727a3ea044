"""IP addresses and CIDRs. As in Kubernetes, addresses with a zone and IPv4 in IPv6 are rejected."""

import math
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import of_first, tenth
from dradriver.cel.evaluate.digits import whole
from dradriver.cel.evaluate.errors import ErrorValue, shown
from dradriver.cel.evaluate.steps import Work, fixed
from dradriver.cel.evaluate.values import Opaque, size_of

__all__ = ["OVERLOADS"]

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network
_BROADCAST: Final = IPv4Address("255.255.255.255")
_LOCAL_MULTICAST_4: Final = IPv4Network("224.0.0.0/24")


class _Ip(Opaque):
    __slots__ = ("address",)

    cel_type = "net.IP"

    def __init__(self, address: _Address) -> None:
        super().__init__(address)
        self.address = address

    @property
    def size(self) -> int:
        return self.address.max_prefixlen // 8


class _Cidr(Opaque):
    __slots__ = ("address", "bits", "network")

    cel_type = "net.CIDR"

    def __init__(self, address: _Address, bits: int) -> None:
        super().__init__((address, bits))
        self.address = address
        self.bits = bits
        self.network: _Network = ip_network(
            (int(address), bits) if address.version == 4 else f"{address}/{bits}", strict=False
        )

    @property
    def size(self) -> int:
        return math.ceil(self.bits / 8)


def _address(text: str) -> _Address:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise ErrorValue(f"{shown(text)} is not an IP address") from error
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise ErrorValue(f"{shown(text)}: zones and IPv4 in IPv6 are not allowed")
    return address


def _cidr(text: str) -> _Cidr:
    base, slash, bits = text.rpartition("/")
    proper = bits.isascii() and bits.isdigit() and (bits == "0" or bits[0] != "0")
    if not slash or not proper or whole(bits) > (address := _address(base)).max_prefixlen:
        raise ErrorValue(f"{shown(text)} is not a CIDR")
    return _Cidr(address, int(bits))


def _is(parse: object, text: str) -> bool:
    try:
        parse(text)  # type: ignore[operator]
    except ErrorValue:
        return False
    return True


def _local_multicast(address: _Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LOCAL_MULTICAST_4
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _global_unicast(address: _Address) -> bool:
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _contains_ip(cidr: _Cidr, address: _Address) -> bool:
    return address.version == cidr.address.version and address in cidr.network


def _contains_cidr(cidr: _Cidr, other: _Cidr) -> bool:
    if cidr.address.version != other.address.version:
        return False
    return cidr.bits <= other.bits and other.address in cidr.network


def _contains_ip_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    parsing = tenth(size_of(args[1])) if isinstance(args[1], str) else 0
    return tenth(2 * size_of(args[0])) + parsing


def _contains_cidr_cost(args: list[object], result: object) -> int:
    return _contains_ip_cost(args, result) + tenth(size_of(args[0])) + 1


def _canonical_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    return math.ceil(size_of(args[0]) * 2 * 0.1)


def _reading(which: int) -> Work:
    """Return a work function: the steps of reading the address in an argument, if it is a text."""

    def work(args: list[object]) -> int:
        text = args[which]
        return _READ + (len(text) // 2 if isinstance(text, str) else 0)

    return work


_READ: Final = 120
_PARSING: Final = _reading(0)
_CONTAINING: Final = _reading(1)
_ADDRESS: Final = fixed(_READ)

OVERLOADS: Final[tuple[Overload, ...]] = (
    function("ip(string): ip", lambda text: _Ip(_address(text)), of_first, work=_PARSING),
    function("isIP(string): bool", lambda text: _is(_address, text), of_first, work=_PARSING),
    function(
        "ip.isCanonical(string): bool", lambda text: str(_address(text)) == text, _canonical_cost, work=_PARSING
    ),
    function("string(ip): string", lambda ip: str(ip.address), work=_ADDRESS),
    method("family(ip): int", lambda ip: ip.address.version, work=_ADDRESS),
    method("isUnspecified(ip): bool", lambda ip: ip.address.is_unspecified, work=_ADDRESS),
    method("isLoopback(ip): bool", lambda ip: ip.address.is_loopback, work=_ADDRESS),
    method("isLinkLocalMulticast(ip): bool", lambda ip: _local_multicast(ip.address), work=_ADDRESS),
    method("isLinkLocalUnicast(ip): bool", lambda ip: ip.address.is_link_local, work=_ADDRESS),
    method("isGlobalUnicast(ip): bool", lambda ip: _global_unicast(ip.address), work=_ADDRESS),
    function("cidr(string): cidr", _cidr, of_first, work=_PARSING),
    function("isCIDR(string): bool", lambda text: _is(_cidr, text), of_first, work=_PARSING),
    function("string(cidr): string", lambda cidr: f"{cidr.address}/{cidr.bits}", work=_ADDRESS),
    method(
        "containsIP(cidr, string): bool",
        lambda cidr, text: _contains_ip(cidr, _address(text)),
        _contains_ip_cost,
        work=_CONTAINING,
    ),
    method(
        "containsIP(cidr, ip): bool",
        lambda cidr, ip: _contains_ip(cidr, ip.address),
        _contains_ip_cost,
        work=_CONTAINING,
    ),
    method(
        "containsCIDR(cidr, string): bool",
        lambda cidr, text: _contains_cidr(cidr, _cidr(text)),
        _contains_cidr_cost,
        work=_CONTAINING,
    ),
    method("containsCIDR(cidr, cidr): bool", _contains_cidr, _contains_cidr_cost, work=_CONTAINING),
    method("ip(cidr): ip", lambda cidr: _Ip(cidr.address), work=_ADDRESS),
    method("prefixLength(cidr): int", lambda cidr: cidr.bits, work=_ADDRESS),
    method("masked(cidr): cidr", lambda cidr: _Cidr(cidr.network.network_address, cidr.bits), work=_ADDRESS),
)
"""All functions of this module, for the registry."""
