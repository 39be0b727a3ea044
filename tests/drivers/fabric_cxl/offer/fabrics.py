"""Fabrics of any shape, and what their devices really take."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import strategies as st

import dradriver as dra
from dradriver_fabric_cxl.fabric import (
    Accelerator,
    AttachmentIdentity,
    FabricHealth,
    FabricInventory,
    Host,
    MemoryChunk,
    MemoryDomain,
)
from dradriver_fabric_cxl.names import SYSTEM_UUID
from dradriver_fabric_cxl.offer import FabricLayout, OfferRules

POOL = "fabric"
OK = FabricHealth.OK


def make_domain(
    name: str = "pool-a", mebibytes: int = 4096, *, foreign: int = 0, **fields: object
) -> MemoryDomain:
    chunks = (MemoryChunk(foreign, None),) if foreign else ()
    values = {"minimum": 256, "increment": 256, "makes_chunks": True, "health": OK, "chunks": chunks}
    return MemoryDomain(name, mebibytes, **values | fields)  # type: ignore[arg-type]


def make_host(number: int = 0, attachments: int | None = 2, **fields: object) -> Host:
    values = {"system": f"uuid-{number}", "health": OK}
    return Host(f"host-{number}", max_attachments=attachments, **values | fields)  # type: ignore[arg-type]


def node_of(host: Host) -> str:
    return f"node-{host.system}"


def report_hosts(hosts: Iterable[Host]) -> dict[str, dra.NodeReport]:
    """A node for each host."""
    return {node_of(host): dra.NodeReport(values={SYSTEM_UUID: host.system}) for host in hosts}


def make_layout(
    domains: Iterable[MemoryDomain] = (),
    hosts: Iterable[Host] = (),
    accelerators: Iterable[Accelerator] = (),
    rules: OfferRules | None = None,
    reports: dict[str, dra.NodeReport] | None = None,
) -> FabricLayout:
    known = tuple(hosts)
    inventory = FabricInventory(POOL, tuple(domains), known, tuple(accelerators))
    return FabricLayout(inventory, report_hosts(known) if reports is None else reports, rules or OfferRules())


@st.composite
def chunks(draw: st.DrawFn, mebibytes: int) -> tuple[MemoryChunk, ...]:
    """Chunks of somebody else, of another pool and of a device that this pool no longer has."""
    owners = (None, AttachmentIdentity("c", POOL, "gone", "t"), AttachmentIdentity("c", "other", "d", "t"))
    made, left = [], mebibytes
    for size in draw(st.lists(st.integers(1, 2048), max_size=3)):
        if size <= left:
            made.append(MemoryChunk(size, draw(st.sampled_from(owners))))
            left -= size
    return tuple(made)


@st.composite
def inventories(draw: st.DrawFn) -> FabricInventory:
    short = st.text("aB1-_.", max_size=4)
    names = short | short.map(lambda text: text + "x" * 65)
    domains = []
    for name in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        size = draw(st.sampled_from((0, 512, 4000, 8192)))
        domains.append(
            MemoryDomain(
                name,
                size,
                minimum=draw(st.sampled_from((1, 256, 1500))),
                increment=draw(st.sampled_from((1, 256, 700))),
                makes_chunks=draw(st.sampled_from((True, True, True, False))),
                health=draw(st.sampled_from(FabricHealth)),
                chunks=draw(chunks(size)),
            )
        )
    hosts = [
        Host(name, f"uuid-{number}", draw(st.none() | st.integers(0, 3)), draw(st.sampled_from(FabricHealth)))
        for number, name in enumerate(draw(st.lists(names, min_size=1, max_size=3, unique=True)))
    ]
    accelerators = [
        Accelerator(name, "0x10de", "", OK) for name in draw(st.lists(names, max_size=2, unique=True))
    ]
    return FabricInventory(POOL, tuple(domains), tuple(hosts), tuple(accelerators))


@st.composite
def rules(draw: st.DrawFn) -> OfferRules:
    sizes = draw(st.lists(st.integers(1, 4096), max_size=3))
    return OfferRules(
        sizes=tuple(sizes), whole_domains=draw(st.booleans()), default_attachments=draw(st.integers(1, 3))
    )


def mebibytes_of(device: dra.Device) -> int:
    return device.capacity["memory"].value.nano // (1 << 20) // 10**9


def find_overdraw(
    inventory: FabricInventory, used: Iterable[dra.Device], default_attachments: int
) -> list[str]:
    """What a manager would refuse if all these devices were attached at once."""
    memory, ports = Counter[str](), Counter[str]()
    for device in used:
        memory[str(device.attribute("domain"))] += mebibytes_of(device)
        ports[device.node_name or ""] += 1
    problems = []
    for domain in inventory.domains:
        wanted, others = memory[domain.id[:64]], sum(each.mebibytes for each in domain.chunks)
        if wanted and wanted + others > domain.mebibytes:
            problems.append(f"{domain.id}: {wanted} MiB")
    for host in inventory.hosts:
        limit = default_attachments if host.max_attachments is None else host.max_attachments
        if ports[node_of(host)] > limit:
            problems.append(f"{host.id}: {ports[node_of(host)]} attachments")
    return problems
