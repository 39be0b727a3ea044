"""kube-apiserver calls `dradriver webhook`, and rejects parameters that a driver would reject."""

import asyncio
import base64
import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.model.encoding.codec import canonical
from tests.conformance.apiserver.suite import MERGE, Api, Json
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.programs import program
from tests.unit.admission import leds
from tests.unit.admission.certificates import make_pair
from tests.unit.admission.leds import GOOD, WRONG
from tests.unit.admission.process import webhook_process

WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PLACES: Final = {
    "ResourceClaim": ("namespaces/default/resourceclaims", "spec.devices.config[0]"),
    "ResourceClaimTemplate": ("namespaces/default/resourceclaimtemplates", "spec.spec.devices.config[0]"),
    "DeviceClass": ("deviceclasses", "spec.config[0]"),
}
RULE: Final = "opaque.parameters: brightness must be between 0 and 100"
DRY: Final = {"dryRun": "All"}


def labeled(body: Json, label: str) -> Json:
    """Return an object with a name of its own, and with the label that the webhook is called for."""
    metadata = body["metadata"] | {"name": f"desk-{uuid.uuid4().hex[:8]}", "labels": {"webhook": label}}
    return body | {"metadata": metadata}


def configuration(label: str, port: int, authority: str) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"led-{label}"},
        "webhooks": [
            {
                "name": "parameters.led.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 30,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/validate-resource-claim-parameters",
                    "caBundle": base64.b64encode(authority.encode()).decode(),
                },
                "rules": [
                    {
                        "apiGroups": ["resource.k8s.io"],
                        "apiVersions": ["v1", "v1beta1", "v1beta2"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["resourceclaims", "resourceclaimtemplates", "deviceclasses"],
                    }
                ],
                "objectSelector": {"matchLabels": {"webhook": label}},
            }
        ],
    }


class Guarded:
    """A server that calls the webhook for objects with a label.

    Attributes:
        old: a wrong claim that was stored before the webhook was there.
    """

    def __init__(self, api: Api, label: str, old: Json) -> None:
        self.api, self.old, self._label = api, old, label

    async def create(self, body: Json) -> tuple[int, Any]:
        group, path = body["apiVersion"], PLACES[body["kind"]][0]
        answer = await self.api.call("POST", f"/apis/{group}/{path}", labeled(body, self._label), params=DRY)
        return answer.status, answer.json

    @property
    def old_path(self) -> str:
        return f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{self.old['metadata']['name']}"


@pytest.fixture
async def guarded(real: Api, tmp_path: Path) -> AsyncIterator[Guarded]:
    label, pair = uuid.uuid4().hex[:8], make_pair("webhook")
    old = labeled(leds.claim(WRONG), label)
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    # As kubectl writes it: after other bytes of parameters, the server itself rejects the next write.
    await real.make(path, canonical(old))
    async with webhook_process(tmp_path, pair) as (_, port):
        await real.make(WEBHOOKS, configuration(label, port, pair.certificate))
        guarded = Guarded(real, label, old)
        try:
            # A webhook takes effect a moment after it is written.
            while (await guarded.create(leds.claim(WRONG)))[0] != 422:
                await asyncio.sleep(0.05)
            yield guarded
        finally:
            await real.call("DELETE", f"{WEBHOOKS}/led-{label}")
            await real.call("DELETE", guarded.old_path)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_invalid_configuration_is_rejected_with_our_message(guarded: Guarded, version: str) -> None:
    for make in (leds.claim, leds.template, leds.device_class):
        body = make(WRONG, version=version)
        status, refusal = await guarded.create(body)
        assert (status, refusal["reason"]) == (422, "Invalid")
        head = 'admission webhook "parameters.led.example.com" denied the request: '
        assert refusal["message"].startswith(head + str(body["kind"]))
        field = PLACES[str(body["kind"])][1]
        assert refusal["message"].endswith(f": {field}.{RULE}")
        assert refusal["details"]["causes"][0]["field"] == f"{field}.opaque.parameters"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_valid_configuration_is_accepted(guarded: Guarded, version: str) -> None:
    for make in (leds.claim, leds.template, leds.device_class):
        status, answer = await guarded.create(make(GOOD, version=version))
        assert status == 201, answer


async def test_a_stored_invalid_claim_can_be_labeled_by_kubectl(
    guarded: Guarded, real_control_plane: Bed
) -> None:
    kubeconfig = real_control_plane.credentials.write_kubeconfig(real_control_plane.url, "admin")
    name = guarded.old["metadata"]["name"]
    command = (
        program("kubectl"), "--kubeconfig", kubeconfig, "patch", "resourceclaim", name, "--type=merge", "-p",
        json.dumps({"metadata": {"labels": {"old": "yes"}}}),
    )  # fmt: skip
    done = await asyncio.to_thread(subprocess.run, list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    labels = (await guarded.api.call("GET", guarded.old_path)).json["metadata"]["labels"]
    assert labels["old"] == "yes"


async def test_a_stored_invalid_claim_can_lose_its_finalizer_and_is_deleted(guarded: Guarded) -> None:
    api, path = guarded.api, guarded.old_path
    add, remove = ({"metadata": {"finalizers": value}} for value in (["example.com/hold"], None))
    assert (await api.call("PATCH", path, add, content_type=MERGE)).status == 200
    assert (await api.call("DELETE", path)).status == 200
    assert (await api.call("PATCH", path, remove, content_type=MERGE)).status == 200
    assert (await api.call("GET", path)).status == 404
