"""Scenarios of ResourceQuotas for devices, played on an API server with a quota controller.

A scenario creates objects and returns the quota's status in the end, or the error of a create. Both servers
must return the same. Claims for extended resources have the form that a scheduler writes.
"""

import asyncio
import re
from typing import Any, Final

from dradriver.model.classic.names import API_VERSION, GROUP
from tests.conformance.apiserver.suite import DRA, MERGE, Answer, Api, Json

GPU: Final = "example.com/gpu"
CLASS: Final = "mygpuclass"
IMPLICIT: Final = f"deviceclass.resource.kubernetes.io/{CLASS}"
EXPLICIT_QUOTA: Final = f"requests.{GPU}"
IMPLICIT_QUOTA: Final = f"requests.{IMPLICIT}"
CLASS_QUOTA: Final = f"{CLASS}.deviceclass.resource.k8s.io/devices"
CLAIMS_QUOTA: Final = "count/resourceclaims.resource.k8s.io"
_UNUSED: Final = "count/secrets"
_TRIES: Final = 100
_TOO_MANY: Final = 1_000_000
_REFUSED: Final = {EXPLICIT_QUOTA, IMPLICIT_QUOTA, CLASS_QUOTA, "requests.cpu", "limits.memory"}
"""The quotas that an object with too large amounts exceeds."""
_USED: Final = re.compile(r"used: (\S+), limited: ")


class QuotaLab:
    """A namespace with a quota, and the class that serves the resource."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.core = f"/api/v1/namespaces/{namespace}"
        self.claims = f"{DRA}/namespaces/{namespace}/resourceclaims"
        self._namespace = namespace

    async def begin(self, *, resource: str | None = GPU, **hard: str) -> None:
        """Create namespace, account and class, and a quota with these amounts; wait for its status."""
        await self.api.make("/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        await self._there(f"{self.core}/serviceaccounts/default")
        body = {"metadata": {"name": CLASS}, "spec": {"extendedResourceName": resource}}
        await self.api.make(f"{DRA}/deviceclasses", body)
        names = {"explicit": EXPLICIT_QUOTA, "implicit": IMPLICIT_QUOTA, "devices": CLASS_QUOTA}
        named = {names.get(key, key.replace("__", "/")): value for key, value in hard.items()}
        await self.api.make(
            f"{self.core}/resourcequotas", {"metadata": {"name": "gpu"}, "spec": {"hard": named}}
        )
        await self.wait_for_usage(dict.fromkeys(named, "0"))

    async def end(self) -> None:
        await self.api.call("DELETE", f"/api/v1/namespaces/{self._namespace}")
        await self.api.call("DELETE", f"{DRA}/deviceclasses/{CLASS}")

    async def pod(self, name: str, *, init: int = 0, **amounts: Any) -> Answer:
        """Create a pod whose container requests amounts of `gpu` or `implicit`."""
        resources = {{"gpu": GPU, "implicit": IMPLICIT}.get(key, key): str(n) for key, n in amounts.items()}
        spec: Json = {"containers": [_container("main", resources)]}
        if init:
            spec["initContainers"] = [_container("setup", {GPU: str(init)})]
        return await self.api.call("POST", f"{self.core}/pods", {"metadata": {"name": name}, "spec": spec})

    async def claim(self, name: str, *requests: Json, owner: Json | None = None) -> Answer:
        """Create a claim; with an owner as a scheduler creates it for that pod's extended resources."""
        metadata: Json = {"name": name}
        if owner is not None:
            metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        devices = {"requests": list(requests or (request(),))}
        return await self.api.call("POST", self.claims, {"metadata": metadata, "spec": {"devices": devices}})

    async def wait_for_usage(self, used: dict[str, str]) -> None:
        """Wait until the quota reports this usage, and until the admission of new objects uses it.

        kube-apiserver reads classes and pods from caches: a claim that follows its pod at once may be counted
        without it, until the controller counts again, which a changed quota triggers.
        """
        path, shown, tries = f"{self.core}/resourcequotas/gpu", None, 0
        async with asyncio.timeout(60):
            while shown != used:
                await asyncio.sleep(0.02)
                tries += 1
                if tries % _TRIES == 0:
                    again = {"spec": {"hard": {_UNUSED: str(tries)}}}
                    await self.api.call("PATCH", path, again, content_type=MERGE)
                stored = (await self.api.call("GET", path)).json
                found = stored.get("status", {}).get("used", {})
                shown = {name: amount for name, amount in found.items() if name != _UNUSED}
            while await self._admission_usage() != {name: used[name] for name in used if name in _REFUSED}:
                await asyncio.sleep(0.02)

    async def _admission_usage(self) -> dict[str, str]:
        """Return the usage in the refusals of two dry runs that no quota admits.

        The quota admission of kube-apiserver reads quotas from a cache, which may be older than the quota that
        a client reads.
        """
        amounts = {GPU: _TOO_MANY, IMPLICIT: _TOO_MANY, "cpu": _TOO_MANY, "memory": f"{_TOO_MANY}Gi"}
        pod = {"metadata": {"name": "too-large"}, "spec": {"containers": [_container("main", amounts)]}}
        devices = {"requests": [request(count=_TOO_MANY)]}
        claim = {"metadata": {"name": "too-large"}, "spec": {"devices": devices}}
        found: dict[str, str] = {}
        for path, body in ((f"{self.core}/pods", pod), (self.claims, claim)):
            answer = await self.api.call("POST", path, body, params={"dryRun": "All"})
            words = _USED.search(answer.json.get("message", ""))
            found |= dict(each.split("=") for each in words[1].split(",")) if words else {}
        return {name: amount for name, amount in found.items() if name in _REFUSED}

    async def _there(self, path: str) -> None:
        async with asyncio.timeout(30):
            while (await self.api.call("GET", path)).status != 200:
                await asyncio.sleep(0.02)


def request(name: str = "r", count: int = 1, **exactly: Any) -> Json:
    wanted = exactly if exactly.get("allocationMode") == "All" else {"count": count, **exactly}
    return {"name": name, "exactly": {"deviceClassName": CLASS, **wanted}}


def _container(name: str, amounts: Json) -> Json:
    return {"name": name, "image": "busybox", "resources": {"limits": amounts}}


def refusal(answer: Answer) -> str:
    assert answer.status == 403, answer.raw
    return str(answer.json["message"])


async def kep_example(lab: QuotaLab) -> None:
    """KEP-5004: five devices, requested in all forms; the quotas count 5, 4 and 4."""
    await lab.begin(explicit="10", implicit="10", devices="10")
    await lab.pod("by-device-plugin", gpu=1)
    by_devices = (await lab.pod("by-devices", gpu=1)).json
    await lab.claim("by-devices-extended-resources-x", request("container-0-request-0"), owner=by_devices)
    implicit = (await lab.pod("implicit", implicit=1)).json
    await lab.claim("implicit-extended-resources-x", request("container-0-request-0"), owner=implicit)
    await lab.claim("own-claim")
    await lab.claim("from-a-template")
    await lab.wait_for_usage({EXPLICIT_QUOTA: "5", IMPLICIT_QUOTA: "4", CLASS_QUOTA: "4"})


async def pods_are_rejected(lab: QuotaLab) -> list[str]:
    """Requests of pods count at creation, with device plugins or DRA; finished pods do not count."""
    await lab.begin(explicit="3", implicit="1")
    messages = [refusal(await lab.pod("too-large", gpu=4))]
    await lab.pod("two", gpu=2)
    messages += [refusal(await lab.pod("too-late", gpu=2)), refusal(await lab.pod("by-init", gpu=1, init=2))]
    messages.append(refusal(await lab.pod("implicit", implicit=2)))
    await lab.api.call(
        "PATCH", f"{lab.core}/pods/two/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE
    )
    await lab.wait_for_usage({EXPLICIT_QUOTA: "0", IMPLICIT_QUOTA: "0"})
    assert (await lab.pod("again", gpu=3)).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "3", IMPLICIT_QUOTA: "0"})
    return messages


async def claims_are_rejected(lab: QuotaLab) -> list[str]:
    """Claims count by the three names of their class; "all" and alternatives count with the maximum."""
    await lab.begin(explicit="40", implicit="40", devices="40")
    messages = [refusal(await lab.claim("too-many", request("a", 21), request("b", 20)))]
    assert (await lab.claim("all", request(allocationMode="All"))).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "32", IMPLICIT_QUOTA: "32", CLASS_QUOTA: "32"})
    alternatives = [{"name": f"s{n}", "deviceClassName": CLASS, "count": n} for n in (2, 9)]
    messages.append(refusal(await lab.claim("worst", {"name": "r", "firstAvailable": alternatives})))
    await lab.api.call("DELETE", f"{lab.claims}/all")
    await lab.wait_for_usage({EXPLICIT_QUOTA: "0", IMPLICIT_QUOTA: "0", CLASS_QUOTA: "0"})
    assert (await lab.claim("worst", {"name": "r", "firstAvailable": alternatives})).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "9", IMPLICIT_QUOTA: "9", CLASS_QUOTA: "9"})
    return messages


async def only_the_pods_own_claim_is_exempt(lab: QuotaLab) -> list[str]:
    """Any user can set an annotation: a second claim for the pod counts."""
    await lab.begin(explicit="2", devices="10")
    pod = (await lab.pod("pod", gpu=1)).json
    assert (await lab.claim("first", owner=pod)).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "1", CLASS_QUOTA: "1"})
    assert (await lab.claim("second", owner=pod)).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "2", CLASS_QUOTA: "2"})
    return [refusal(await lab.claim("third", owner=pod))]


async def a_class_without_a_name(lab: QuotaLab) -> list[str]:
    """Only the class's own names are left; the pods' requests count nevertheless."""
    await lab.begin(resource=None, explicit="2", implicit="2", devices="2")
    assert (await lab.claim("claim", request(count=2))).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "0", IMPLICIT_QUOTA: "2", CLASS_QUOTA: "2"})
    assert (await lab.pod("pod", gpu=2)).status == 201
    await lab.wait_for_usage({EXPLICIT_QUOTA: "2", IMPLICIT_QUOTA: "2", CLASS_QUOTA: "2"})
    return [refusal(await lab.claim("another"))]


async def compute_and_counts(lab: QuotaLab) -> list[str]:
    """CPU and memory must be set if a quota limits them; objects are counted."""
    hard = {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi", CLAIMS_QUOTA.replace("/", "__"): "1"}
    await lab.begin(**hard)
    messages = [refusal(await lab.pod("no-requests", gpu=1))]
    assert (await lab.pod("first", cpu="500m", memory="512Mi")).status == 201
    messages.append(refusal(await lab.pod("too-much", cpu="600m", memory="600Mi")))
    assert (await lab.claim("claim")).status == 201
    messages.append(refusal(await lab.claim("another")))
    await lab.wait_for_usage({"pods": "1", "requests.cpu": "500m", "limits.memory": "512Mi", CLAIMS_QUOTA: "1"})
    return messages


async def claims_of_a_controller(lab: QuotaLab) -> list[str]:
    """KEP-3063: claims that a controller allocates count by their class, as all claims."""
    await lab.begin(resource=None, implicit="3", devices="3")
    parameters = {"apiVersion": API_VERSION, "kind": "ControllerClass", "controllerName": "fabric.example.com"}
    spec = {
        "selectors": [{"cel": {"expression": "false"}}],
        "config": [{"opaque": {"driver": GROUP, "parameters": parameters}}],
    }
    changed = await lab.api.call("PATCH", f"{DRA}/deviceclasses/{CLASS}", {"spec": spec}, content_type=MERGE)
    assert changed.status == 200, changed.raw
    assert (await lab.claim("claim", request(count=2))).status == 201
    await lab.wait_for_usage({IMPLICIT_QUOTA: "2", CLASS_QUOTA: "2"})
    messages = [refusal(await lab.claim("another", request(count=2)))]
    await lab.api.call("DELETE", f"{lab.claims}/claim")
    await lab.wait_for_usage({IMPLICIT_QUOTA: "0", CLASS_QUOTA: "0"})
    return messages


STORIES: Final = (
    kep_example,
    pods_are_rejected,
    claims_are_rejected,
    only_the_pods_own_claim_is_exempt,
    a_class_without_a_name,
    compute_and_counts,
    claims_of_a_controller,
)
