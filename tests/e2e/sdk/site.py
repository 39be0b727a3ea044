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
from tests.e2e.bed import free_port
from tests.e2e.node import Node

T = TypeVar("T")
Json = dict[str, Any]

DRIVER: Final = "cards.example.com"
EXTENDED_RESOURCE: Final = "example.com/card"
CARDS: Final = 6
PATIENCE: Final = 90.0
PROGRAM: Final = Path(__file__).with_name("cards_driver.py")
WAIT: Final = "trap 'exit 0' TERM; sleep infinity & wait"
"""What a container does that runs until it is told to end."""


class DriverProcess:
    """The cards driver in a process of its own, as a DaemonSet's pod would run it."""

    def __init__(self, site: "Site", pod_uid: str, boot_id: str) -> None:
        self._site, self._pod_uid, self._boot_id = site, pod_uid, boot_id
        self._port = free_port()
        self.log = site.folder / f"driver{pod_uid and '-' + pod_uid}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts it; it is not registered yet."""
        node = self._site.node
        command = [
            sys.executable, str(PROGRAM), f"--node-name={node.name}", f"--kubeconfig={self._site.kubeconfig}",
            f"--plugins-dir={node.plugins}", f"--registry-dir={node.registry}", f"--cdi-dir={node.cdi}",
            f"--pod-uid={self._pod_uid}", f"--metrics-port={self._port}", "--log-level=debug",
        ]  # fmt: skip
        if self._boot_id:
            command = ["unshare", "--mount", *_with_boot_id(self._site.folder, self._boot_id), *command]
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, "HARDWARE": str(self._site.hardware)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def ready(self) -> bool:
        """Whether it says that it is registered and has published."""
        url = f"http://127.0.0.1:{self._port}/readyz"
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        return False

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it by a signal, SIGTERM as the kubelet does or SIGKILL as the kernel does."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()


def _with_boot_id(folder: Path, boot_id: str) -> Sequence[str]:
    """A command line that shows another boot ID to what follows it, in a mount namespace of its own."""
    file = folder / "boot_id"
    file.write_text(boot_id)
    script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    return ("sh", "-c", script, str(file))


@dataclass
class Site:
    """What a test of the SDK has.

    Attributes:
        client: the API server, as an administrator.
        node: the node, whose kubelet can be stopped and started.
        folder: logs, and the hardware.
        kubeconfig: the driver's own.
        namespace: where the test's pods and claims are.
    """

    client: Client
    node: Node
    folder: Path
    kubeconfig: Path
    namespace: str
    drivers: list[DriverProcess] = field(default_factory=list)

    @property
    def hardware(self) -> Path:
        """The folder that the driver takes for its hardware."""
        return self.folder / "hardware"

    async def restart_kubelet(self) -> None:
        """Ends the kubelet and starts it; returns when the node is ready."""
        await asyncio.to_thread(self.node.stop)
        await asyncio.to_thread(self.node.start)

    async def reboot(self) -> None:
        """What a power cut does to the node and its cards; no driver may be running."""
        await asyncio.to_thread(self.node.reboot)
        shutil.rmtree(self.hardware / "claims", ignore_errors=True)

    def plug(self, cards: int) -> None:
        """Sets the number of cards."""
        new = self.hardware / "cards.new"
        new.write_text(str(cards))
        new.rename(self.hardware / "cards")

    def tell_health(self, card: str, word: str) -> None:
        """Sets the health of a card."""
        new = self.hardware / "health" / f"new-{card}"
        new.write_text(word)
        new.rename(self.hardware / "health" / card)

    # --- the driver -----------------------------------------------------------------------------

    async def start_driver(self, *, pod_uid: str = "", boot_id: str = "") -> DriverProcess:
        """A driver that is registered and has published; it is ended with the test."""
        process = DriverProcess(self, pod_uid, boot_id)
        self.drivers.append(process)
        await process.start()
        await self.until("ready driver", process.ready)
        return process

    async def views(self) -> tuple[set[str], set[str], set[str]]:
        """UIDs of claims in the state file, in the CDI folder, in the hardware."""
        state = {record.uid for record in node_status(self.node.plugins / DRIVER).claims}
        names = [spec.name for spec in self.node.cdi.glob("*.json")]
        claims = (await self.client.list(CLAIMS, self.namespace, into=Json)).items
        known = state | {claim["metadata"]["uid"] for claim in claims}
        cdi = {uid for uid in known if any(uid in name for name in names)}
        hardware = {entry.name for entry in (self.hardware / "claims").glob("*")}
        return state, cdi, hardware

    async def all_views_are(self, uids: set[str]) -> None:
        """Waits until state file, CDI folder and hardware know exactly these claims."""

        async def agree() -> bool:
            return all(view == uids for view in await self.views())

        await self.until(f"prepared claims {uids or 'none'}", agree)

    # --- objects --------------------------------------------------------------------------------

    async def published(self, cards: int) -> None:
        """Waits until the node's pool is complete and holds this many cards."""

        async def complete() -> bool:
            return len(await self.published_cards()) == cards

        await self.until(f"{cards} cards published", complete)

    async def published_cards(self) -> set[str]:
        """The names of the cards that the node's slices hold."""
        fields = f"spec.driver={DRIVER},spec.nodeName={self.node.name}"
        slices = (await self.client.list(SLICES, fields=fields, into=Json)).items
        return {device["name"] for item in slices for device in item["spec"].get("devices", [])}

    async def slice_uids(self) -> set[str]:
        """The UIDs of the node's slices."""
        fields = f"spec.driver={DRIVER},spec.nodeName={self.node.name}"
        return {
            item["metadata"]["uid"] for item in (await self.client.list(SLICES, fields=fields, into=Json)).items
        }

    async def claim(self, name: str) -> str:
        """A claim for one card; gives its UID."""
        made = await self.client.create(
            CLAIMS, {"metadata": {"name": name}, "spec": _claim_spec()}, self.namespace, into=Json
        )
        return str(made["metadata"]["uid"])

    async def claim_status(self, name: str) -> Json:
        """The status of a claim."""
        return dict((await self.client.get(CLAIMS, name, self.namespace, into=Json)).get("status", {}))

    async def release_claim(self, name: str) -> None:
        """Deletes a claim and waits until it is gone."""
        await self.client.delete(CLAIMS, name, self.namespace)

        async def gone() -> bool:
            with contextlib.suppress(NotFound):
                await self.client.get(CLAIMS, name, self.namespace, into=Json)
                return False
            return True

        await self.until(f"removal of claim {name}", gone)

    async def pod(self, name: str, claim: str, script: str = WAIT, **more: Any) -> Json:
        """A pod that uses a claim, for the scheduler to place."""
        container = {**_container(script), "resources": {"claims": [{"name": "card"}]}}
        spec = {"containers": [container], "resourceClaims": [{"name": "card", "resourceClaimName": claim}]}
        return await self.bare_pod(name, {**spec, **more})

    async def bare_pod(self, name: str, spec: Json) -> Json:
        """A pod with this spec, bound to nothing yet."""
        defaults = {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
        }  # fmt: skip
        body = {"metadata": {"name": name}, "spec": {**defaults, **spec}}
        return await self.client.create(PODS, body, self.namespace, into=Json)

    async def get_pod(self, name: str) -> Json | None:
        """The pod, None when it is gone."""
        with contextlib.suppress(NotFound):
            return await self.client.get(PODS, name, self.namespace, into=Json)
        return None

    async def phase(self, name: str, phase: str) -> Json:
        """Waits until a pod has this phase; gives the pod."""

        async def check() -> Json | None:
            pod = await self.get_pod(name)
            return pod if pod and pod["status"].get("phase") == phase else None

        found = await self.until(f"pod {name} {phase}", check)
        assert found is not None
        return found

    async def delete_pod(self, name: str, *, force: bool = False) -> None:
        """Asks for the deletion of a pod."""
        await self.client.delete(PODS, name, self.namespace, grace_seconds=0 if force else None)

    async def gone(self, name: str) -> None:
        """Waits until a pod's object is gone."""

        async def check() -> bool:
            return await self.get_pod(name) is None

        await self.until(f"removal of pod {name}", check)

    async def logs(self, pod: str, container: str = "main") -> str:
        """What a container wrote."""
        return await self.client.logs(pod, self.namespace, container)

    async def all_events(self) -> list[str]:
        """Reasons and messages of all events of the namespace."""
        events = (await self.client.list(EVENTS, self.namespace, into=Json)).items
        return [f"{e['reason']}: {e['message']}" for e in events]

    async def events(self, name: str) -> list[str]:
        """Reasons and messages of the events of an object of the namespace."""
        events = (await self.client.list(EVENTS, self.namespace, into=Json)).items
        return [f"{e['reason']}: {e['message']}" for e in events if e["involvedObject"].get("name") == name]

    async def until(self, what: str, check: Callable[[], Awaitable[T]]) -> T:
        """The first true result of a check; fails with what is known when patience ends."""
        deadline = time.monotonic() + PATIENCE
        while not (result := await check()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {PATIENCE:.0f} s\n{await self._what_is_known()}")
            await asyncio.sleep(0.05)
        return result

    async def _what_is_known(self) -> str:
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
    """A container of the bed's image."""
    return {**_container(script), **more}
