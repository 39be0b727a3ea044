"""Objects keep their meaning and their opaque bytes in older API versions."""

import msgspec
import pytest

from dradriver.model.encoding.versions import best_version, older_from_v1, v1_from_older

SLICE = (
    b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s"},"spec":'
    b'{"devices":[{"attributes":{"a":{"int":1}},"name":"gpu-0"}],"driver":"d"}}'
)
CLAIM = (
    b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c"},"spec":'
    b'{"devices":{"config":[{"opaque":{"driver":"d","parameters":{"b": 1.0,  "a":"<"}}}],"requests":'
    b'[{"exactly":{"count":1,"deviceClassName":"x"},"name":"r"},'
    b'{"firstAvailable":[{"deviceClassName":"x","name":"s"}],"name":"q"}]}}}'
)


def test_a_v1beta1_device_keeps_its_fields_in_basic() -> None:
    older = msgspec.json.decode(older_from_v1("ResourceSlice", SLICE, "v1beta1"))
    assert older["apiVersion"] == "resource.k8s.io/v1beta1"
    assert older["spec"]["devices"] == [{"name": "gpu-0", "basic": {"attributes": {"a": {"int": 1}}}}]


def test_a_v1beta1_request_has_the_exact_fields_beside_its_name() -> None:
    older = msgspec.json.decode(older_from_v1("ResourceClaim", CLAIM, "v1beta1"))
    first, second = older["spec"]["devices"]["requests"]
    assert first == {"name": "r", "deviceClassName": "x", "count": 1}
    assert second == {"name": "q", "firstAvailable": [{"deviceClassName": "x", "name": "s"}]}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize(("kind", "data"), [("ResourceSlice", SLICE), ("ResourceClaim", CLAIM)])
def test_a_round_trip_gives_the_same_bytes(kind: str, data: bytes, version: str) -> None:
    older = older_from_v1(kind, data, version)
    assert older != data
    assert v1_from_older(kind, older, version) == data


def test_the_claim_spec_of_a_template_is_converted() -> None:
    data = b'{"spec":{"spec":{"devices":{"requests":[{"exactly":{"deviceClassName":"x"},"name":"r"}]}}}}'
    older = older_from_v1("ResourceClaimTemplate", data, "v1beta1")
    assert older == b'{"spec":{"spec":{"devices":{"requests":[{"deviceClassName":"x","name":"r"}]}}}}'
    assert v1_from_older("ResourceClaimTemplate", older, "v1beta1") == data


def test_v1beta2_differs_from_v1_only_in_its_name() -> None:
    assert older_from_v1("ResourceSlice", SLICE, "v1beta2") == SLICE.replace(b"k8s.io/v1", b"k8s.io/v1beta2")


def test_a_partial_object_of_a_patch_is_converted() -> None:
    patch = b'{"metadata":{"labels":{"a":"b"}}}'
    assert older_from_v1("ResourceClaim", patch, "v1beta1") == patch


def test_the_best_supported_version_is_used() -> None:
    assert best_version(["v1beta1", "v1beta2"]) == "v1beta2"
    assert best_version(["v1alpha3", "v1", "v1beta1"]) == "v1"
    assert best_version(["v1alpha3"]) is None
