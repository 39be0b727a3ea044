"""A driver with configuration, and reviews of objects with such configuration."""

import json
from collections.abc import Sequence
from typing import Literal

import dradriver as dra
from dradriver.driver import Claim
from dradriver.driver.source import Discovered


class LedConfig(dra.Config):
    api_version = "led.example.com/v1"
    kind = "LedConfig"
    brightness: int = 100
    color: Literal["red", "green"] = "red"

    def __post_init__(self) -> None:
        if not 0 <= self.brightness <= 100:
            raise ValueError("brightness must be between 0 and 100")


class LedDriver(dra.Driver):
    name = "led.example.com"
    configs = (LedConfig,)

    def __init__(self) -> None:
        raise RuntimeError("no LED in reach: a webhook runs anywhere")

    def discover(self) -> Discovered:
        return []

    def prepare(self, claim: Claim) -> dict[dra.AllocatedDevice, dra.ContainerEdits]:
        return {}


class PlainDriver(dra.Driver):
    name = "plain.example.com"

    def discover(self) -> Discovered:
        return []

    def prepare(self, claim: Claim) -> dict[dra.AllocatedDevice, dra.ContainerEdits]:
        return {}


KNOWN = {LedDriver.name: LedDriver.configs}


def led(**fields: object) -> dict[str, object]:
    """Return an entry of `config` for the driver of LEDs."""
    parameters = {"apiVersion": "led.example.com/v1", "kind": "LedConfig"} | fields
    return {"opaque": {"driver": LedDriver.name, "parameters": parameters}}


GOOD, WRONG = led(brightness=50), led(brightness=500)


def claim(*configs: object, version: str = "v1") -> dict[str, object]:
    body = {"requests": [request(version)], "config": list(configs)}
    return _object("ResourceClaim", version, {"devices": body})


def template(*configs: object, version: str = "v1") -> dict[str, object]:
    body = {"requests": [request(version)], "config": list(configs)}
    return _object("ResourceClaimTemplate", version, {"spec": {"devices": body}})


def device_class(*configs: object, version: str = "v1") -> dict[str, object]:
    return _object("DeviceClass", version, {"config": list(configs)})


def request(version: str) -> dict[str, object]:
    """Return a request in that version of the API."""
    body: dict[str, object] = {"deviceClassName": "led"}
    return {"name": "led", **(body if version == "v1beta1" else {"exactly": body})}


def _object(kind: str, version: str, spec: object) -> dict[str, object]:
    metadata = {"name": "desk"} | ({} if kind == "DeviceClass" else {"namespace": "default"})
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def review_of(new: dict[str, object] | None, old: dict[str, object] | None = None, **fields: object) -> bytes:
    """Return the AdmissionReview that an API server sends for a change from `old` to `new`."""
    first = new or old or {}
    group, _, version = str(first["apiVersion"]).partition("/")
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    asked: dict[str, object] = {
        "uid": "4711",
        "kind": {"group": group, "version": version, "kind": first["kind"]},
        "operation": operation,
        "name": "desk",
        "namespace": "" if first["kind"] == "DeviceClass" else "default",
        "object": new,
        "oldObject": old,
        "options": None,
        "userInfo": {"username": "admin"},
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | fields}
    return json.dumps(body).encode()


def paths(causes: Sequence[dict[str, str]]) -> list[str]:
    return [cause["field"] for cause in causes]
