"""One node of a real cluster, the cards driver beside its kubelet, and a namespace for pods and claims."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from dradriver.kube import CLAIMS, EVENTS, PODS, SLICES, Client, NotFound
from dradriver.node import node_status
from tests.e2e.bed.nodes.node import Node
from tests.ports import reserve_port

T = TypeVar("T")
Json = dict[str, Any]

DRIVER: Final = "cards.example.com"
EXTENDED_RESOURCE: Final = "example.com/card"
CARDS: Final = 6
PATIENCE: Final = 90.0
PROGRAM: Final = Path(__file__).with_name("cards_driver.py")
WAIT: Final = "trap 'exit 0' TERM; sleep infinity & wait"
"""The script of a container that runs until SIGTERM."""


class DriverProcess:
    """A driver in its own process, as a DaemonSet's pod runs it.

    Args:
        site: the folders and the kubeconfig.
        pod_uid: the UID of the pod, which distinguishes two instances on a node.
        boot_id: the boot ID that the driver sees; empty for that of the machine.
        program: the program of the driver.
        node: the node; None for that of the site.
        kubeconfig: the kubeconfig; None for that of the site.
        environment: more environment variables.
    """

    def __init__(
        self,
        site: "Site",
        pod_uid: str,
        boot_id: str,
        *,
        program: Path = PROGRAM,
        node: Node | None = None,
        kubeconfig: Path | None = None,
        **environment: str,
    ) -> None:
        self._site, self._pod_uid, self._boot_id = site, pod_uid, boot_id
        self._program, self._node, self._environment = program, node or site.node, environment
        self._kubeconfig = kubeconfig or site.kubeconfig
        self._port = reserve_port()
        self.log = site.folder / f"driver{pod_uid and '-' + pod_uid}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process; it is not registered yet."""
        node = self._node
        command = [
            sys.executable, str(self._program), f"--node-name={node.name}",
            f"--kubeconfig={self._kubeconfig}", f"--plugins-dir={node.plugins}",
            f"--registry-dir={node.registry}", f"--cdi-dir={node.cdi}", f"--pod-uid={self._pod_uid}",
            f"--metrics-port={self._port}", "--log-level=debug",
        ]  # fmt: skip
        if self._boot_id:
            command = ["unshare", "--mount", *_with_boot_id(self._site.folder, self._boot_id), *command]
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, "HARDWARE": str(self._site.hardware), **self._environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def ready(self) -> bool:
        """Return whether the driver reports that it is registered and has published."""
        url = f"http://127.0.0.1:{self._port}/readyz"
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        return False

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process with a signal."""
        if self._process is not None and self.is_running:
            self._process.send_signal(how)
            await self._process.wait()


def _with_boot_id(folder: Path, boot_id: str) -> Sequence[str]:
    """Return a command prefix that shows another boot ID to the command, in a mount namespace of its own."""
    file = folder / "boot_id"
    file.write_text(boot_id)
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    return ("sh", "-c", script, str(file))


@dataclass
class Site:
    """The objects that tests of a driver on a node use.

    Attributes:
        client: the API server, as an administrator.
        node: the node, whose kubelet can be stopped and started.
        folder: the folder of logs and hardware.
        kubeconfig: the kubeconfig of the driver.
        namespace: the namespace of the test's pods and claims.
    """

    client: Client
    node: Node
    folder: Path
    kubeconfig: Path
    namespace: str
    drivers: list[DriverProcess] = field(default_factory=list)

    @property
    def hardware(self) -> Path:
        """Return the folder that the driver uses as hardware."""
        return self.folder / "hardware"

    async def restart_kubelet(self) -> None:
        """Restart the kubelet and wait until the node is ready."""
        await asyncio.to_thread(self.node.stop)
        await asyncio.to_thread(self.node.start)

    async def reboot(self) -> None:
        """Reboot the node and clear its cards, as a power failure does; no driver may be running."""
        await asyncio.to_thread(self.node.reboot)
        shutil.rmtree(self.hardware / "claims", ignore_errors=True)

    def set_cards(self, cards: int) -> None:
        """Set the number of cards."""
        new = self.hardware / "cards.new"
        new.write_text(str(cards))
        new.rename(self.hardware / "cards")

    def set_health(self, card: str, word: str) -> None:
        """Set the health of a card."""
        new = self.hardware / "health" / f"new-{card}"
        new.write_text(word)
        new.rename(self.hardware / "health" / card)

    # --- the driver -----------------------------------------------------------------------------

    async def start_driver(self, *, pod_uid: str = "", boot_id: str = "") -> DriverProcess:
        """Start a driver and wait until it is registered and has published; it ends with the test."""
        process = DriverProcess(self, pod_uid, boot_id)
        self.drivers.append(process)
        await process.start()
        await self.until("ready driver", process.ready)
        return process

    async def views(self) -> tuple[set[str], set[str], set[str]]:
        """Return UIDs of claims in the state file, in the CDI folder, and in the hardware."""
        state = {record.uid for record in node_status(self.node.plugins / DRIVER).claims}
        names = [spec.name for spec in self.node.cdi.glob("*.json")]
        claims = (await self.client.list(CLAIMS, self.namespace, into=Json)).items
        known = state | {claim["metadata"]["uid"] for claim in claims}
        cdi = {uid for uid in known if any(uid in name for name in names)}
        hardware = {entry.name for entry in (self.hardware / "claims").glob("*")}
        return state, cdi, hardware

    async def wait_for_prepared(self, uids: set[str]) -> None:
        """Wait until state file, CDI folder and hardware have exactly these claims."""

        async def agree() -> bool:
            return all(view == uids for view in await self.views())

        await self.until(f"prepared claims {uids or 'none'}", agree)

    # --- objects --------------------------------------------------------------------------------

    async def wait_for_published(self, cards: int) -> None:
        """Wait until the node's pool is complete and has this number of cards."""

        async def complete() -> bool:
            return len(await self.published_cards()) == cards

        await self.until(f"{cards} cards published", complete)

    async def published_cards(self) -> set[str]:
        """Return the names of the cards in the node's slices."""
        fields = f"spec.driver={DRIVER},spec.nodeName={self.node.name}"
        slices = (await self.client.list(SLICES, fields=fields, into=Json)).items
        return {device["name"] for item in slices for device in item["spec"].get("devices", [])}

    async def slice_uids(self) -> set[str]:
        """Return the UIDs of the node's slices."""
        fields = f"spec.driver={DRIVER},spec.nodeName={self.node.name}"
        return {
            item["metadata"]["uid"] for item in (await self.client.list(SLICES, fields=fields, into=Json)).items
        }

    async def create_claim(self, name: str) -> str:
        """Create a claim for one card; return its UID."""
        made = await self.client.create(
            CLAIMS, {"metadata": {"name": name}, "spec": _claim_spec()}, self.namespace, into=Json
        )
        return str(made["metadata"]["uid"])

    async def claim_status(self, name: str) -> Json:
        """Return the status of a claim."""
        return dict((await self.client.get(CLAIMS, name, self.namespace, into=Json)).get("status", {}))

    async def delete_claim(self, name: str) -> None:
        """Delete a claim and wait until it is gone."""
        await self.client.delete(CLAIMS, name, self.namespace)

        async def gone() -> bool:
            with contextlib.suppress(NotFound):
                await self.client.get(CLAIMS, name, self.namespace, into=Json)
                return False
            return True

        await self.until(f"removal of claim {name}", gone)

    async def create_pod(self, name: str, claim: str, script: str = WAIT, **more: Any) -> Json:
        """Create a pod that uses a claim; kube-scheduler places it."""
        container = {**_container(script), "resources": {"claims": [{"name": "card"}]}}
        spec = {"containers": [container], "resourceClaims": [{"name": "card", "resourceClaimName": claim}]}
        return await self.create_pod_with_spec(name, {**spec, **more})

    async def create_pod_with_spec(self, name: str, spec: Json) -> Json:
        """Create a pod with this spec."""
        defaults = {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
        }  # fmt: skip
        body = {"metadata": {"name": name}, "spec": {**defaults, **spec}}
        return await self.client.create(PODS, body, self.namespace, into=Json)

    async def get_pod(self, name: str) -> Json | None:
        """Return the pod, None after its deletion."""
        with contextlib.suppress(NotFound):
            return await self.client.get(PODS, name, self.namespace, into=Json)
        return None

    async def wait_for_phase(self, name: str, phase: str) -> Json:
        """Wait until a pod has this phase; return the pod."""

        async def check() -> Json | None:
            pod = await self.get_pod(name)
            return pod if pod and pod["status"].get("phase") == phase else None

        found = await self.until(f"pod {name} {phase}", check)
        assert found is not None
        return found

    async def delete_pod(self, name: str, *, force: bool = False) -> None:
        """Request the deletion of a pod."""
        await self.client.delete(PODS, name, self.namespace, grace_seconds=0 if force else None)

    async def wait_for_deletion(self, name: str) -> None:
        """Wait until a pod's object is deleted."""

        async def check() -> bool:
            return await self.get_pod(name) is None

        await self.until(f"removal of pod {name}", check)

    async def logs(self, pod: str, container: str = "main") -> str:
        """Return the log of a container."""
        return await self.client.logs(pod, self.namespace, container)

    async def all_events(self) -> list[str]:
        """Return reasons and messages of all events of the namespace."""
        events = (await self.client.list(EVENTS, self.namespace, into=Json)).items
        return [f"{e['reason']}: {e['message']}" for e in events]

    async def events(self, name: str) -> list[str]:
        """Return reasons and messages of the events of an object of the namespace."""
        events = (await self.client.list(EVENTS, self.namespace, into=Json)).items
        return [f"{e['reason']}: {e['message']}" for e in events if e["involvedObject"].get("name") == name]

    async def until(self, what: str, check: Callable[[], Awaitable[T]]) -> T:
        """Wait for the first true result of a check and return it; a timeout reports the state."""
        deadline = time.monotonic() + PATIENCE
        while not (result := await check()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {PATIENCE:.0f} s\n{await self._describe_state()}")
            await asyncio.sleep(0.05)
        return result

    async def _describe_state(self) -> str:
        pods = (await self.client.list(PODS, self.namespace, into=Json)).items
        lines = [f"pod {p['metadata']['name']}: {p['status']}" for p in pods]
        for pod in pods:
            lines += await self.events(pod["metadata"]["name"])
        lines += [f"{d.log.name}: {d.log.read_text(errors='replace')[-1500:]}" for d in self.drivers]
        return "\n".join(lines)


def _claim_spec() -> Json:
    return {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": DRIVER}}]}}


def _container(script: str) -> Json:
    return {
        "name": "main", "image": "busybox", "imagePullPolicy": "Never", "command": ["sh", "-c", script],
    }  # fmt: skip


def card_container(script: str = WAIT, **more: Any) -> Json:
    """Return a container with the bed's image."""
    return {**_container(script), **more}
