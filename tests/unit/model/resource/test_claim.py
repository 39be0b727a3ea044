"""Go writes null for empty lists without `omitempty`, so answers of an API server contain null."""

import msgspec

from dradriver.model.encoding.codec import decode
from dradriver.model.resource.claim import ResourceClaim

CLAIM = b"""{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a"},
"spec":{"devices":{"requests":null,"config":[{"opaque":{"driver":"d","parameters":{"b": null, "a":1.0}}}]}},
"status":{"devices":[{"driver":"d","pool":"p","device":"d","conditions":null}]}}"""


def test_a_list_that_is_null_is_empty() -> None:
    claim = decode(ResourceClaim, CLAIM)
    assert claim.spec.devices.requests == []
    assert claim.status is not None
    assert claim.status.devices[0].conditions == []


def test_opaque_parameters_keep_their_nulls_and_their_bytes() -> None:
    opaque = decode(ResourceClaim, CLAIM).spec.devices.config[0].opaque
    assert opaque is not None
    assert opaque.parameters == msgspec.Raw(b'{"b": null, "a":1.0}')
