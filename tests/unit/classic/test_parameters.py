"""Parameters of classes and claims: inline or by reference. Errors are Events of the claim."""

from typing import Any

import pytest

import dradriver as dra
from dradriver.driver import PendingClaim
from dradriver.kube import CLASSES, CONFIG_MAPS, CRDS, NAMESPACES, Resource
from tests.unit.classic.shelf import Shelf, ShelfDriver, ShelfLab, SlotClaim, SlotClass, class_of

SLOT_CLAIM = {"apiVersion": "shelf.example.com/v1", "kind": "SlotClaim", "slots": 3}
SLOT_CLASSES = Resource("shelf.example.com", "v1", "slotclasses", "SlotClass", namespaced=False)


class SlotMap(dra.Config):
    """A ConfigMap with parameters."""

    api_version = "v1"
    kind = "ConfigMap"
    data: dict[str, str]


class Noting(ShelfDriver):
    """Notes the parameters of each claim."""

    class_configs = (SlotClass, SlotMap)
    claim_configs = (SlotClaim, SlotMap)

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.seen: list[tuple[object, object]] = []

    async def begin(self, claims: Any) -> None:
        for claim in claims:
            assert isinstance(claim, PendingClaim)
            self.seen += [(each.class_parameters, each.claim_parameters) for each in claim.requests]


async def test_parameters_of_the_claim_are_decoded(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(driver := Noting(shelf)):
        await lab.create_claim(immediate=True, parameters=SLOT_CLAIM)
        await lab.allocated()
    assert driver.seen == [(None, SlotClaim(slots=3))]


async def test_an_unknown_field_is_an_event_that_names_it(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True, parameters=SLOT_CLAIM | {"slotz": 1})
        message = await lab.event("AllocationFailed")
    assert message == (
        "claim default/claim-1: parameters of shelf.example.com for request slot: slotz: "
        "SlotClaim has no such field"
    )
    assert lab.records.items == {}


async def test_parameters_of_an_unknown_kind_are_an_event(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True, parameters={"apiVersion": "v9", "kind": "Other"})
        assert "v9 Other is not known to the driver" in await lab.event("AllocationFailed")


async def test_a_config_map_of_the_claims_namespace_has_parameters(lab: ShelfLab, shelf: Shelf) -> None:
    async with lab.driver(driver := Noting(shelf)):
        await lab.create_claim(immediate=True, parametersRef={"kind": "ConfigMap", "name": "slots"})
        message = await lab.event("AllocationFailed")
        assert message.endswith("parametersRef: there is no ConfigMap default/slots")
        body = {"metadata": {"name": "slots"}, "data": {"slots": "2"}, "immutable": True}
        await lab.client.create(CONFIG_MAPS, body, "default", into=dict)
        await lab.allocated()
    assert driver.seen[-1] == (None, SlotMap(data={"slots": "2"}))


async def test_a_class_may_refer_to_an_object_of_any_namespace(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.client.create(NAMESPACES, {"metadata": {"name": "vendor"}}, into=dict)
    body = {"metadata": {"name": "slots"}, "data": {"color": "red"}}
    await lab.client.create(CONFIG_MAPS, body, "vendor", into=dict)
    reference = {"kind": "ConfigMap", "name": "slots", "namespace": "vendor"}
    await lab.client.create(CLASSES, class_of("of-vendor", parametersRef=reference), into=dict)
    async with lab.driver(driver := Noting(shelf)):
        await lab.create_claim(immediate=True, device_class="of-vendor")
        await lab.allocated()
    assert driver.seen == [(SlotMap(data={"color": "red"}), None)]


async def test_the_spec_of_a_custom_resource_has_parameters(lab: ShelfLab, shelf: Shelf) -> None:
    await lab.client.create(CRDS, definition(), into=dict)
    await lab.client.create(SLOT_CLASSES, {"metadata": {"name": "red"}, "spec": {"color": "red"}}, into=dict)
    reference = {"apiGroup": "shelf.example.com", "kind": "SlotClass", "name": "red"}
    await lab.client.create(CLASSES, class_of("red", parametersRef=reference), into=dict)
    async with lab.driver(driver := Noting(shelf)):
        await lab.create_claim(immediate=True, device_class="red")
        await lab.allocated()
    assert driver.seen == [(SlotClass(color="red"), None)]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            {"apiGroup": "none.example.com", "kind": "Thing", "name": "x"},
            "parametersRef: the API server has no kind Thing of none.example.com",
        ),
        ({"kind": "Thing", "name": "x"}, "parametersRef: the API server has no kind Thing"),
        (
            {"kind": "ConfigMap", "name": "x"},
            "namespace: is required, because a ConfigMap belongs to a namespace",
        ),
    ],
)
async def test_a_wrong_reference_is_an_event(
    lab: ShelfLab, shelf: Shelf, reference: dict[str, str], message: str
) -> None:
    await lab.client.create(CLASSES, class_of("wrong", parametersRef=reference), into=dict)
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True, device_class="wrong")
        assert (await lab.event("AllocationFailed")).endswith(message)


async def test_a_claim_that_breaks_a_rule_of_classic_claims_is_an_event(lab: ShelfLab, shelf: Shelf) -> None:
    reference = {"kind": "ConfigMap", "name": "slots", "namespace": "vendor"}
    async with lab.driver(ShelfDriver(shelf)):
        await lab.create_claim(immediate=True, parametersRef=reference)
        assert "parametersRef.namespace must not be set" in await lab.event("AllocationFailed")


async def test_a_driver_may_refuse_parameters(lab: ShelfLab, shelf: Shelf) -> None:
    class Strict(ShelfDriver):
        def claim_parameters(
            self, claim: str, parameters: dra.Config | None, class_parameters: object
        ) -> object:
            raise dra.AllocationError(f"claim {claim}: slots is required")

    async with lab.driver(Strict(shelf)):
        await lab.create_claim(immediate=True)
        assert await lab.event("AllocationFailed") == "claim default/claim-1: slots is required"


def definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "slotclasses", "kind": "SlotClass"}
    return {
        "metadata": {"name": "slotclasses.shelf.example.com"},
        "spec": {"group": "shelf.example.com", "names": names, "scope": "Cluster", "versions": [version]},
    }
