"""Unmodified kubectl with the embedded API server."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.apiserver import ApiServer

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: loop.example.com}
spec: {selectors: [{cel: {expression: device.driver == "loop.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: loop}
spec:
  spec:
    devices:
      requests: [{name: loop, exactly: {deviceClassName: loop.example.com}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec:
  devices:
    requests: [{name: loop, exactly: {deviceClassName: loop.example.com}}]
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: c, image: busybox, resources: {claims: [{name: dev}]}}]
  resourceClaims: [{name: dev, resourceClaimTemplateName: loop}]
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {a: "%s"}
"""
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: loop.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: d}]
"""


class Kubectl:
    """Run kubectl with the admin's kubeconfig and a cache of its own."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        server.write_kubeconfig(folder / "kubeconfig")

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "kubectl", f"--kubeconfig={self.folder}/kubeconfig", f"--cache-dir={self.folder}/cache", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    async def __call__(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        process = await self.start(*arguments)
        output, _ = await process.communicate(stdin.encode())
        assert process.returncode == code, output.decode()
        return output.decode()

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    server = ApiServer(tmp_path / "data")
    await server.start()
    yield Kubectl(server, tmp_path)
    await server.stop()


async def test_apply_creates_and_then_reports_unchanged(kubectl: Kubectl) -> None:
    first = await kubectl("apply", "-f", "-", stdin=MANIFESTS)
    assert first.count("created") == 4
    again = await kubectl("apply", "-f", "-", stdin=MANIFESTS)
    assert "pod/one unchanged" in again
    assert "Warning" not in first + again


async def test_apply_changes_only_the_changed_fields(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=CONFIG_MAP % "1")
    assert "configured" in await kubectl("apply", "-f", "-", stdin=CONFIG_MAP % "2")
    assert (await kubectl.json("get", "cm", "m"))["data"] == {"a": "2"}


async def test_server_side_apply_reports_conflicts(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in await kubectl(*apply, stdin=CONFIG_MAP % "1")
    await kubectl("patch", "cm", "m", "--field-manager=other", "--type=merge", "-p", '{"data":{"a":"9"}}')
    refused = await kubectl(*apply, stdin=CONFIG_MAP % "2", code=1)
    assert 'conflict with "other"' in refused
    await kubectl(*apply, "--force-conflicts", stdin=CONFIG_MAP % "2")
    assert (await kubectl.json("get", "cm", "m"))["data"] == {"a": "2"}


async def test_the_server_rejects_a_misspelled_field(kubectl: Kubectl) -> None:
    wrong = MANIFESTS.replace("deviceClassName", "deviceClass")
    output = await kubectl("apply", "-f", "-", stdin=wrong, code=1)
    assert 'unknown field "spec.devices.requests[0].exactly.deviceClass"' in output
    ignored = await kubectl(
        "create", "--validate=warn", "-f", "-", stdin=CONFIG_MAP.replace("\ndata", "\ndato: {}\ndata") % "1"
    )
    assert 'Warning: unknown field "dato"' in ignored


async def test_replace_as_kubectl_edit_does(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG_MAP % "1")
    current = await kubectl.json("get", "cm", "m")
    current["data"]["a"] = "3"
    assert "replaced" in await kubectl("replace", "-f", "-", stdin=json.dumps(current))
    stale = await kubectl("replace", "-f", "-", stdin=json.dumps(current), code=1)
    assert "the object has been modified" in stale


async def test_get_prints_the_usual_columns(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=MANIFESTS)
    await kubectl("create", "-f", "-", stdin=SLICE)
    for kind, columns in {
        "pods": "NAME READY STATUS RESTARTS AGE",
        "resourceclaims": "NAME STATE AGE",
        "resourceclaimtemplates": "NAME AGE",
        "deviceclasses": "NAME AGE",
        "resourceslices": "NAME NODE DRIVER POOL AGE",
        "namespaces": "NAME STATUS AGE",
    }.items():
        assert (await kubectl("get", kind)).splitlines()[0].split() == columns.split()
    wide = await kubectl("get", "pods", "-o", "wide")
    assert wide.splitlines()[0].split()[5:8] == ["IP", "NODE", "NOMINATED"]
    assert (await kubectl("get", "all", "-o", "name")).split() == ["pod/one"]
    assert "resource.k8s.io/v1" in await kubectl("get", "resourceclaim", "shared", "-o", "yaml")


async def test_api_resources_version_and_who_am_i(kubectl: Kubectl) -> None:
    listed = await kubectl("api-resources")
    assert {"resourceclaims", "resourceslices", "customresourcedefinitions", "leases"} <= {
        line.split()[0] for line in listed.splitlines()
    }
    assert "Server Version: v1.37.0" in await kubectl("version")
    assert "system:masters" in await kubectl("auth", "whoami")
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"


async def test_typed_clients_can_send_protobuf(kubectl: Kubectl) -> None:
    """`kubectl create` of typed kinds does."""
    await kubectl("create", "namespace", "n")
    await kubectl("create", "configmap", "m", "-n", "n", "--from-literal=a=1")
    await kubectl("create", "secret", "generic", "s", "-n", "n", "--from-literal=a=1")
    assert (await kubectl.json("get", "cm", "m", "-n", "n"))["data"] == {"a": "1"}
    assert (await kubectl.json("get", "secret", "s", "-n", "n"))["data"] == {"a": "MQ=="}
    token = await kubectl("create", "token", "default", "-n", "default")
    assert "system:serviceaccount:default:default" in await kubectl(
        "auth", "whoami", f"--token={token.strip()}"
    )


async def test_wait_sees_conditions_and_deletion(kubectl: Kubectl) -> None:
    await kubectl("run", "p", "--image=busybox")
    waiting = await kubectl.start("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}}
    await kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", json.dumps(ready))
    output, _ = await waiting.communicate()
    assert b"condition met" in output
    gone = await kubectl.start("wait", "--for=delete", "pod/p", "--timeout=20s")
    await kubectl("delete", "pod", "p")
    assert (await gone.communicate(), gone.returncode)[1] == 0


async def test_get_watch_follows_changes(kubectl: Kubectl) -> None:
    process = await kubectl.start("get", "configmaps", "-w", "--no-headers", "-o", "name")
    assert process.stdout is not None
    await kubectl("create", "-f", "-", stdin=CONFIG_MAP % "1")
    assert await process.stdout.readline() == b"configmap/m\n"
    process.kill()
    await process.wait()


async def test_logs_are_read_through_the_hook(kubectl: Kubectl) -> None:
    async def lines(container: str, tail: int | None) -> AsyncIterator[bytes]:
        yield f"{container} {tail}\n".encode()

    async def logs(
        namespace: str, pod: str, container: str, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        assert (namespace, pod, follow) == ("default", "p", False)
        return lines(container, tail)

    kubectl.server.pod_logs = logs
    await kubectl("run", "p", "--image=busybox")
    assert await kubectl("logs", "p", "--tail=5") == "p 5\n"


async def test_a_custom_kind_can_be_used_at_once(kubectl: Kubectl) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "singular": "thing", "shortNames": ["th"]},
            "versions": [{
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
            }],
        },
    }  # fmt: skip
    await kubectl("apply", "-f", "-", stdin=json.dumps(definition))
    await kubectl("wait", "--for=condition=Established", "crd/things.example.com", "--timeout=10s")
    thing = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"color": "red"},
    }
    await kubectl("apply", "-f", "-", stdin=json.dumps(thing))
    assert (await kubectl("get", "th")).split() == ["NAME", "COLOR", "t", "red"]
    await kubectl("delete", "crd", "things.example.com")


async def test_deleting_a_namespace_deletes_its_objects(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "n")
    await kubectl("apply", "-n", "n", "-f", "-", stdin=MANIFESTS)
    await kubectl("delete", "namespace", "n", "--timeout=20s")
    assert "No resources found" in await kubectl("get", "resourceclaims,pods", "-A")
