"""IP addresses and CIDRs. As in Kubernetes, IPv6 zones and IPv4 addresses in IPv6 form are rejected."""

import math
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import double_first_cost, first_cost, text_cost
from dradriver.cel.evaluate.digits import parse_digits
from dradriver.cel.evaluate.errors import ErrorValue, excerpt, succeeds
from dradriver.cel.evaluate.steps import Work, fixed_work
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
        raise ErrorValue(f"{excerpt(text)} is not an IP address") from error
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None):
        raise ErrorValue(f"{excerpt(text)}: zones and IPv4 in IPv6 are not allowed")
    return address


def _cidr(text: str) -> _Cidr:
    base, slash, bits = text.rpartition("/")
    is_number = bits.isascii() and bits.isdigit() and (bits == "0" or bits[0] != "0")
    if not slash or not is_number or parse_digits(bits) > (address := _address(base)).max_prefixlen:
        raise ErrorValue(f"{excerpt(text)} is not a CIDR")
    return _Cidr(address, int(bits))


def _is_local_multicast(address: _Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LOCAL_MULTICAST_4
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(address: _Address) -> bool:
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _contains_ip(cidr: _Cidr, address: _Address) -> bool:
    return address.version == cidr.address.version and address in cidr.network


def _contains_cidr(cidr: _Cidr, other: _Cidr) -> bool:
    if cidr.address.version != other.address.version:
        return False
    return cidr.bits <= other.bits and other.address in cidr.network


def _contains_ip_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    parsing = text_cost(size_of(args[1])) if isinstance(args[1], str) else 0
    return text_cost(2 * size_of(args[0])) + parsing


def _contains_cidr_cost(args: list[object], result: object) -> int:
    return _contains_ip_cost(args, result) + text_cost(size_of(args[0])) + 1


def _read_work(which: int) -> Work:
    """Return a work function for reading the address in argument `which`, if this argument is a text."""

    def work(args: list[object]) -> int:
        text = args[which]
        return _READ_STEPS + (len(text) // 2 if isinstance(text, str) else 0)

    return work


_READ_STEPS: Final = 120
_PARSE_WORK: Final = _read_work(0)
_CONTAIN_WORK: Final = _read_work(1)
_ADDRESS_WORK: Final = fixed_work(_READ_STEPS)

OVERLOADS: Final[tuple[Overload, ...]] = (
    function("ip(string): ip", lambda text: _Ip(_address(text)), first_cost, work=_PARSE_WORK),
    function("isIP(string): bool", lambda text: succeeds(_address, text), first_cost, work=_PARSE_WORK),
    function(
        "ip.isCanonical(string): bool",
        lambda text: str(_address(text)) == text,
        double_first_cost,
        work=_PARSE_WORK,
    ),
    function("string(ip): string", lambda ip: str(ip.address), work=_ADDRESS_WORK),
    method("family(ip): int", lambda ip: ip.address.version, work=_ADDRESS_WORK),
    method("isUnspecified(ip): bool", lambda ip: ip.address.is_unspecified, work=_ADDRESS_WORK),
    method("isLoopback(ip): bool", lambda ip: ip.address.is_loopback, work=_ADDRESS_WORK),
    method("isLinkLocalMulticast(ip): bool", lambda ip: _is_local_multicast(ip.address), work=_ADDRESS_WORK),
    method("isLinkLocalUnicast(ip): bool", lambda ip: ip.address.is_link_local, work=_ADDRESS_WORK),
    method("isGlobalUnicast(ip): bool", lambda ip: _is_global_unicast(ip.address), work=_ADDRESS_WORK),
    function("cidr(string): cidr", _cidr, first_cost, work=_PARSE_WORK),
    function("isCIDR(string): bool", lambda text: succeeds(_cidr, text), first_cost, work=_PARSE_WORK),
    function("string(cidr): string", lambda cidr: f"{cidr.address}/{cidr.bits}", work=_ADDRESS_WORK),
    method(
        "containsIP(cidr, string): bool",
        lambda cidr, text: _contains_ip(cidr, _address(text)),
        _contains_ip_cost,
        work=_CONTAIN_WORK,
    ),
    method(
        "containsIP(cidr, ip): bool",
        lambda cidr, ip: _contains_ip(cidr, ip.address),
        _contains_ip_cost,
        work=_CONTAIN_WORK,
    ),
    method(
        "containsCIDR(cidr, string): bool",
        lambda cidr, text: _contains_cidr(cidr, _cidr(text)),
        _contains_cidr_cost,
        work=_CONTAIN_WORK,
    ),
    method("containsCIDR(cidr, cidr): bool", _contains_cidr, _contains_cidr_cost, work=_CONTAIN_WORK),
    method("ip(cidr): ip", lambda cidr: _Ip(cidr.address), work=_ADDRESS_WORK),
    method("prefixLength(cidr): int", lambda cidr: cidr.bits, work=_ADDRESS_WORK),
    method(
        "masked(cidr): cidr", lambda cidr: _Cidr(cidr.network.network_address, cidr.bits), work=_ADDRESS_WORK
    ),
)
"""All functions of this module; `compile.environment` collects them."""
