"""What the MPS control daemon of a claim serves, and its limits.

A container has one pipe directory, so a claim has one daemon. It serves all whole GPUs for which the claim
requests MPS, or one MIG device: a CUDA program uses at most one MIG device.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import dradriver as dra
from dradriver_gpu_mig.configs import MpsConfig
from dradriver_gpu_mig.mps import MpsDaemon

__all__ = ["MpsClient", "plan_daemon"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MpsClient:
    """A device for which a claim requests MPS.

    Attributes:
        device: name of the device.
        config: what the claim requests.
        share: bytes of the device's memory that the claim has reserved, if it has a share of the device;
            otherwise 0.
        uuid: UUID of the GPU or the MIG device; "" until it is prepared.
    """

    device: str
    config: MpsConfig
    share: int = 0
    uuid: str = field(default="", kw_only=True)


def plan_daemon(claim: dra.Claim, clients: Sequence[MpsClient]) -> MpsDaemon:
    """Return the daemon of a claim.

    Args:
        claim: the claim.
        clients: the devices with MPS, with their UUIDs, in the order of the allocation.

    Raises:
        DraError: one daemon cannot serve these devices, or the requests contradict each other.
    """
    name = f"claim {claim.namespace}/{claim.name}"
    devices = tuple(dict.fromkeys(client.uuid for client in clients))
    if len(devices) > 1 and any(uuid.startswith("MIG-") for uuid in devices):
        names = ", ".join(dict.fromkeys(client.device for client in clients))
        raise dra.DraError(
            f"{name} requests MPS for {names}: an MPS control daemon serves whole GPUs or one MIG device. "
            "Make a claim for each MIG device"
        )
    configs = [client.config for client in clients]
    return MpsDaemon(
        claim=claim.uid,
        devices=devices,
        active_thread_percentage=_only(
            name, "defaultActiveThreadPercentage", [each.default_active_thread_percentage for each in configs]
        ),
        memory_limits=dict(_list_limits(name, clients)),
        multi_user=_only(name, "multiUser", [bool(each.multi_user) for each in configs]),
    )


def _only(claim: str, name: str, values: Sequence[_T]) -> _T:
    if len(set(values)) > 1:
        found = ", ".join(map(str, dict.fromkeys(values)))
        raise dra.DraError(
            f"{claim}: mpsConfig.{name}: must be the same for all devices of the claim, not {found}: "
            "they have one MPS control daemon"
        )
    return values[0]


def _list_limits(claim: str, clients: Sequence[MpsClient]) -> Iterator[tuple[str, int]]:
    """Yield UUID and limit in MiB of each device that has a limit. A claim may have several shares of it."""
    for uuid in dict.fromkeys(client.uuid for client in clients):
        own = [client for client in clients if client.uuid == uuid]
        device, share = own[0].device, sum(client.share for client in own) >> 20
        limits = {_find_limit(claim, client, _list_together(client, clients)) for client in own}
        if len(limits) > 1:
            found = ", ".join("none" if limit is None else f"{limit}Mi" for limit in limits)
            raise dra.DraError(
                f"{claim}: device {device}: the memory limit of MPS must be the same for all shares, "
                f"not {found}"
            )
        (limit,) = limits
        if share and limit is not None and limit > share:
            raise dra.DraError(
                f"{claim}: device {device}: the memory limit of MPS is {limit}Mi, and the claim has only "
                f"{share}Mi of the device (memory in capacity.requests)"
            )
        if limit is not None or share:
            yield uuid, share if limit is None else limit


def _list_together(client: MpsClient, clients: Sequence[MpsClient]) -> list[str]:
    """Return the UUIDs of all devices with the same configuration, in the order of the allocation."""
    return list(dict.fromkeys(each.uuid for each in clients if each.config == client.config))


def _find_limit(claim: str, client: MpsClient, together: Sequence[str]) -> int | None:
    """Return the limit of a device in MiB, from the map of its configuration, or else for all devices.

    Args:
        claim: the claim, for errors.
        client: the device.
        together: UUIDs of all devices with the same configuration. The map contains UUIDs, or indexes in this
            list.
    """
    name = f"{claim}: mpsConfig.defaultPerDevicePinnedMemoryLimit"
    by_uuid: dict[str, str | int] = {}
    for key, limit in (client.config.default_per_device_pinned_memory_limit or {}).items():
        uuid = together[int(key)] if key.isdecimal() and int(key) < len(together) else key
        if uuid not in together:
            raise dra.DraError(
                f"{name}: {key!r} is neither the UUID of a device with this configuration nor an index below "
                f"{len(together)}"
            )
        if uuid in by_uuid:
            raise dra.DraError(f"{name}: {key!r} is a second limit of the device {uuid}")
        by_uuid[uuid] = limit
    found = by_uuid.get(client.uuid, client.config.default_pinned_device_memory_limit)
    return None if found is None else int(dra.Quantity(found)) >> 20
