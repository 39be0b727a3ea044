"""A real API server knows each field of the chart's objects; releases are installed, changed and removed."""

import asyncio
import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509

from tests.conformance.apiserver.suite import Api, Json
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import VALUES, Helm, find_manifest, on_bed, set_values

NAMESPACE: Final = "devices"
OWN: Final = [path for path in VALUES if "foreign-apis" not in path.name]
RELEASE: Final = {"image.repository": "registry.example.com/d", "drivers.loop.enabled": True}
WEBHOOK: Final = {"drivers.loop.webhook": {"enabled": True}}


@pytest.fixture(scope="module")
def helm(real_control_plane: Bed) -> Iterator[Helm]:
    helm = on_bed(real_control_plane, NAMESPACE)
    yield helm
    helm.uninstall("dradriver")


async def plurals(api: Api, group_version: str) -> dict[str, str]:
    path = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
    listed = (await api.call("GET", path)).json["resources"]
    return {
        each["kind"]: f"namespaces/*/{each['name']}" if each["namespaced"] else each["name"]
        for each in listed
        if "/" not in each["name"]
    }


async def collection(api: Api, manifest: Json) -> str:
    version = manifest["apiVersion"]
    plural = (await plurals(api, version))[manifest["kind"]]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    return f"{root}/{plural.replace('*', manifest['metadata'].get('namespace', ''))}"


@pytest.mark.parametrize("values", OWN, ids=lambda path: path.name)
async def test_each_field_of_each_object_is_known(real: Api, helm: Helm, values: Path) -> None:
    await real.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    manifests = helm.template("-f", str(values))
    strict = {"dryRun": "All", "fieldValidation": "Strict"}
    for manifest in manifests:
        answer = await real.call("POST", await collection(real, manifest), manifest, params=strict)
        assert answer.status == 201, (manifest["kind"], answer.json["message"])


async def objects(real: Api, release: str) -> set[tuple[str, str]]:
    """Return kinds and names of all objects of a release."""
    found = set()
    groups = (await real.call("GET", "/apis")).json["groups"]
    for version in ["v1", *(each["preferredVersion"]["groupVersion"] for each in groups)]:
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        for resource in (await real.call("GET", root)).json["resources"]:
            if "list" in resource["verbs"]:
                params = {"labelSelector": f"app.kubernetes.io/instance={release}"}
                items = (await real.call("GET", f"{root}/{resource['name']}", params=params)).json["items"]
                found |= {(resource["kind"], item["metadata"]["name"]) for item in items}
    return found


async def test_a_release_is_installed_upgraded_and_removed_completely(real: Api, helm: Helm) -> None:
    helm.install("dradriver", *set_values(RELEASE))
    installed = await objects(real, "dradriver")
    assert ("DaemonSet", "dradriver-loop") in installed
    assert ("DeviceClass", "loop.example.com") in installed
    helm.upgrade("dradriver", *set_values({**RELEASE, **WEBHOOK}))
    upgraded = await objects(real, "dradriver")
    assert upgraded > installed
    assert ("ValidatingWebhookConfiguration", "dradriver-loop-webhook") in upgraded
    helm.upgrade("dradriver", *set_values(RELEASE))
    assert await objects(real, "dradriver") == installed
    helm.uninstall("dradriver")
    assert await objects(real, "dradriver") == set()


async def secret(real: Api) -> dict[str, bytes]:
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/dradriver-loop-webhook-tls"
    data = (await real.call("GET", path)).json["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


async def test_upgrades_keep_a_generated_certificate(real: Api, helm: Helm) -> None:
    helm.install("dradriver", *set_values({**RELEASE, **WEBHOOK}))
    before = await secret(real)
    helm.upgrade("dradriver", *set_values({**RELEASE, **WEBHOOK, "driverDefaults.logLevel": "debug"}))
    assert await secret(real) == before
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/dradriver-loop-webhook"
    (webhook,) = (await real.call("GET", path)).json["webhooks"]
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == before["ca.crt"]
    certificate = x509.load_pem_x509_certificate(before["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(before["ca.crt"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert f"dradriver-loop-webhook.{NAMESPACE}.svc" in names.get_values_for_type(x509.DNSName)
    helm.uninstall("dradriver")


OPAQUE: Final[Json] = {"apiVersion": "loop.example.com/v1", "kind": "LoopConfig"}


def with_parameters(kind: str, driver: str) -> Json:
    """Return an object of a kind with opaque parameters for a driver."""
    config = [{"opaque": {"driver": driver, "parameters": OPAQUE}}]
    requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
    spec: dict[str, Any] = {"devices": {"requests": requests, "config": config}}
    specs = {"ResourceClaim": spec, "ResourceClaimTemplate": {"spec": spec}, "DeviceClass": {"config": config}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"webhook-{uuid.uuid4().hex[:8]}"},
        "spec": specs[kind],
    }


async def test_the_webhook_is_called_only_for_parameters_of_its_driver(real: Api, helm: Helm) -> None:
    """The webhook does not run here, so each request that needs it is rejected."""
    helm.install("dradriver", *set_values({**RELEASE, **WEBHOOK}))
    try:
        for kind in ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"):
            for driver, status in (("loop.example.com", 500), ("gpu.example.com", 201)):
                body = with_parameters(kind, driver)
                if kind != "DeviceClass":
                    body["metadata"]["namespace"] = NAMESPACE
                path = await collection(real, body)
                async with asyncio.timeout(30):
                    answer = await real.call("POST", path, body, params={"dryRun": "All"})
                    while driver == "loop.example.com" and answer.status == 201:
                        await asyncio.sleep(0.1)
                        answer = await real.call("POST", path, body, params={"dryRun": "All"})
                assert answer.status == status, answer.raw
                if status == 500:
                    assert 'failed calling webhook "parameters.loop.example.com"' in answer.json["message"]
    finally:
        helm.uninstall("dradriver")


def test_the_notes_name_the_next_commands(helm: Helm) -> None:
    notes = helm.install("dradriver", *set_values(RELEASE))
    try:
        assert "kubectl -n devices rollout status daemonset/dradriver-loop" in notes
        assert "DeviceClass for claims: loop.example.com" in notes
    finally:
        helm.uninstall("dradriver")


def test_objects_of_other_projects_have_the_documented_form(helm: Helm) -> None:
    """Their API servers are missing here: only the form is checked."""
    manifests = helm.template("-f", str(next(path for path in VALUES if "foreign-apis" in path.name)))
    monitor = find_manifest(manifests, "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"
    certificate = find_manifest(manifests, "Certificate")
    assert certificate["spec"]["dnsNames"][0] == "release-dradriver-loop-webhook.devices.svc"
    assert certificate["spec"]["issuerRef"] == {
        "kind": "Issuer",
        "name": find_manifest(manifests, "Issuer")["metadata"]["name"],
    }
    configuration = find_manifest(manifests, "ValidatingWebhookConfiguration")
    inject = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert inject == f"devices/{certificate['metadata']['name']}"
