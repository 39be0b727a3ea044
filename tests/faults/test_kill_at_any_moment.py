"""kill -9 during prepare, unprepare, publish or start: every claim is prepared once or not at all.

After each kill the process starts again, and the interrupted calls are repeated as a kubelet does. Then four
views must agree: the kubelet's calls, the state file, the CDI folder, and the hardware; and the slices must
show the inventory. KILLS in the environment sets the number of kills (default 12), SEED repeats a run.
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import grpc
import pytest

from dradriver.cli.supervision import describe_exit, last_lines
from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, NODES, SLICES, Client, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node import node_status
from dradriver.wire import dra_v1, registration_v1
from dradriver.wire.stubs import dra_v1_grpc, registration_v1_grpc
from tests.seeds import choose_seed

DRIVER = "folder.example.com"
NODE = "node-1"
KILLS = int(os.environ.get("KILLS", "12"))
# The seeds of earlier failures are kept beside the tests and run first.
FAILED = Path(__file__).with_name("failed_seeds.txt")
SEEDS = [*map(int, FAILED.read_text().split() if FAILED.exists() else ()), int(os.environ.get("SEED", "0"))]
SLOTS = 4  # slots of claims, each with its own two devices
# A separate connection: gRPC would keep waiting for the one to the killed process.
FRESH = [("grpc.use_local_subchannel_pool", 1)]
PROGRAM = Path(__file__).with_name("folder_driver.py")


class Node:
    """The folders of a node, the driver's process, and the test's part as the kubelet."""

    def __init__(self, directory: Path, client: Client, kubeconfig: Path) -> None:
        self.directory = directory
        self.client = client
        self.kubeconfig = kubeconfig
        self.wanted: dict[str, dra_v1.Claim] = {}  # claims that the kubelet has prepared, by UID
        self.process: asyncio.subprocess.Process | None = None
        self.began = 0  # offset of the process's part of the log
        for name in ("plugins", "registry", "cdi", "hardware"):
            (directory / name).mkdir()

    def inventory(self, count: int, revision: int) -> None:
        """Set the devices of the next discovery; the rename prevents partial reads."""
        temporary = self.directory / "hardware" / "inventory.new"
        temporary.write_text(f"{count} {revision}")
        temporary.rename(self.directory / "hardware" / "inventory")

    async def start(self) -> None:
        folders = [f"--{name}-dir={self.directory / name}" for name in ("plugins", "registry", "cdi")]
        with (self.directory / "driver.log").open("ab") as log:
            self.began = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(PROGRAM),
                *folders,
                f"--node-name={NODE}",
                f"--kubeconfig={self.kubeconfig}",
                env={**os.environ, "HARDWARE": str(self.directory / "hardware")},
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        """Return the output of the last process, without that of earlier ones."""
        return last_lines(self.directory / "driver.log", 1000, self.began)

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    @contextlib.asynccontextmanager
    async def plugin(self) -> AsyncIterator[dra_v1_grpc.DRAPluginStub]:
        """Connect to the driver's service, registered as a kubelet registers it."""
        async with asyncio.timeout(60):
            endpoint = await self._register()
        async with grpc.aio.insecure_channel(f"unix:{endpoint}", options=FRESH) as channel:
            yield dra_v1_grpc.DRAPluginStub(channel)

    async def _register(self) -> str:
        while True:
            for entry in (self.directory / "registry").iterdir():
                with contextlib.suppress(grpc.aio.AioRpcError):
                    async with grpc.aio.insecure_channel(f"unix:{entry}", options=FRESH) as channel:
                        stub = registration_v1_grpc.RegistrationStub(channel)
                        info = await stub.GetInfo(registration_v1.InfoRequest(), timeout=1)
                        status = registration_v1.RegistrationStatus(plugin_registered=True)
                        await stub.NotifyRegistrationStatus(status, timeout=1)
                        return str(info.endpoint)
            assert self.process is not None
            code = self.process.returncode
            assert code is None, f"the driver {describe_exit(code)}: {self.log()}"
            await asyncio.sleep(0.01)


async def prepare(plugin: dra_v1_grpc.DRAPluginStub, node: Node, claim: dra_v1.Claim) -> None:
    node.wanted[claim.uid] = claim
    answer = await plugin.NodePrepareResources(dra_v1.NodePrepareResourcesRequest(claims=[claim]), timeout=30)
    assert not answer.claims[claim.uid].error


async def unprepare(plugin: dra_v1_grpc.DRAPluginStub, node: Node, claim: dra_v1.Claim) -> None:
    node.wanted.pop(claim.uid, None)
    answer = await plugin.NodeUnprepareResources(
        dra_v1.NodeUnprepareResourcesRequest(claims=[claim]), timeout=30
    )
    assert not answer.claims[claim.uid].error


async def allocated_claim(client: Client, slot: int) -> dra_v1.Claim:
    """Return a claim that is allocated the two devices of a slot."""
    name = f"claim-{slot}-{uuid4().hex[:8]}"
    request = {"name": "device", "exactly": {"deviceClassName": "any", "count": 2}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    created = await client.create(CLAIMS, body, "default", into=ResourceClaim)
    devices = [f"device-{2 * slot}", f"device-{2 * slot + 1}"]
    results = [{"request": "device", "driver": DRIVER, "pool": NODE, "device": device} for device in devices]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}},
        "reservedFor": [{"resource": "pods", "name": "pod", "uid": str(uuid4())}],
    }
    await client.patch(
        CLAIMS, name, "default", {"status": status}, PatchKind.MERGE, subresource="status", into=bytes
    )
    return dra_v1.Claim(namespace="default", name=name, uid=created.metadata.uid)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    server.write_kubeconfig(tmp_path / "admin.kubeconfig")
    server.write_kubeconfig(tmp_path / "node.kubeconfig", f"driver:{NODE}")
    async with await Client.connect(str(tmp_path / "admin.kubeconfig")) as client:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        await client.create(NODES, body, into=bytes)
        folder = tmp_path / "node"
        folder.mkdir()
        node = Node(folder, client, tmp_path / "node.kubeconfig")
        yield node
        if node.process is not None and node.process.returncode is None:
            await node.kill()
    await server.stop()


async def eventually(holds: Callable[[], Awaitable[str]], where: str, seconds: float = 30) -> None:
    """Wait until `holds` returns no violation."""
    deadline = time.monotonic() + seconds
    while complaint := await holds():
        assert time.monotonic() < deadline, f"{where}: {complaint}"
        await asyncio.sleep(0.02)


async def views_agree(node: Node) -> str:
    """Compare the claims of the kubelet, the state file, the CDI folder and the hardware."""
    wanted = set(node.wanted)
    state = {record.uid for record in node_status(node.directory / "plugins" / DRIVER).claims}
    specs = (node.directory / "cdi").glob("*.json")
    cdi = {uid for spec in specs for uid in wanted | state if uid in spec.name}
    foreign = [
        spec.name for spec in (node.directory / "cdi").iterdir() if not any(uid in spec.name for uid in wanted)
    ]
    claims = node.directory / "hardware" / "claims"
    hardware = {entry.name for entry in claims.iterdir()} if claims.exists() else set()
    if wanted == state == cdi == hardware and not foreign:
        return ""
    return f"kubelet {wanted}, state {state}, CDI {cdi} (left over: {foreign}), hardware {hardware}"


async def slices_are(node: Node, count: int, revision: int) -> str:
    """Return whether the published pool is complete and shows the inventory."""
    listed = await node.client.list(SLICES, fields=f"spec.driver={DRIVER}", into=ResourceSlice)
    newest = max((item.spec.pool.generation for item in listed.items), default=0)
    current = [item for item in listed.items if item.spec.pool.generation == newest]
    complete = (
        len(listed.items) == len(current) == (current[0].spec.pool.resource_slice_count if current else -1)
    )
    seen = {(d.name, d.attribute("revision")) for item in current for d in item.spec.devices}
    wanted = {(f"device-{index}", revision) for index in range(count)}
    return (
        "" if complete and seen == wanted else f"published {seen} ({len(listed.items)} slices), wanted {wanted}"
    )


async def one_call(
    node: Node, slot: int, claims: list[dra_v1.Claim], plugin: dra_v1_grpc.DRAPluginStub
) -> None:
    """Prepare or unprepare the claim of a slot; a new claim replaces an unprepared one."""
    claim = claims[slot]
    if claim.uid in node.wanted:
        await unprepare(plugin, node, claim)
        claims[slot] = await allocated_claim(node.client, slot)
    else:
        await prepare(plugin, node, claim)


@pytest.mark.timeout(60 + 10 * KILLS)
@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed or "random"))
async def test_after_a_kill_every_claim_is_prepared_once_or_not_at_all(node: Node, seed: int) -> None:
    seed = seed or choose_seed()
    print(f"SEED={seed} KILLS={KILLS}")
    try:
        await kill_and_compare(node, seed)
    except BaseException:
        with FAILED.open("a") as kept:
            kept.write(f"{seed}\n")
        raise


async def kill_and_compare(node: Node, seed: int) -> None:
    """Kill the driver at random moments and compare the views after each kill."""
    rng = random.Random(seed)
    claims = [await allocated_claim(node.client, slot) for slot in range(SLOTS)]
    count, revision = 2 * SLOTS, 1
    node.inventory(count, revision)
    await node.start()
    for kill in range(KILLS):
        if rng.random() < 0.2:  # while it starts
            await asyncio.sleep(rng.uniform(0, 0.8))
        else:  # while it works
            async with node.plugin() as plugin:
                revision += 1
                count = 2 * SLOTS + rng.randrange(3)
                node.inventory(count, revision)
                slots = rng.sample(range(SLOTS), k=rng.randint(1, SLOTS))
                calls = [asyncio.create_task(one_call(node, slot, claims, plugin)) for slot in slots]
                await asyncio.sleep(rng.choice([rng.uniform(0, 0.02), rng.uniform(0, 0.3)]))
                await node.kill()
                results = await asyncio.gather(*calls, return_exceptions=True)
                cut = (type(None), grpc.aio.AioRpcError)
                assert all(isinstance(result, cut) for result in results), results
        if node.process is not None and node.process.returncode is None:
            await node.kill()
        await node.start()
        async with node.plugin() as plugin:
            for claim in claims:  # a kubelet repeats calls without an answer
                await (prepare if claim.uid in node.wanted else unprepare)(plugin, node, claim)
        where = f"kill {kill}, SEED={seed}"
        await eventually(lambda: views_agree(node), where)
        await eventually(lambda c=count, r=revision: slices_are(node, c, r), where)  # type: ignore[misc]
