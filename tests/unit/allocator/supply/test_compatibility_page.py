"""The example of docs/compatibility-groups.md has the results that the page describes."""

import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, Refusal, allocate
from dradriver.model.encoding.codec import from_builtins
from dradriver.model.resource.claim import ClaimStatus, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.recorded_groups import SNAPSHOT_DRIVER
from dradriver.model.resource.slices import ResourceSlice

PAGE = (Path(__file__).parents[4] / "docs/compatibility-groups.md").read_text()
ON = Features(compatibility_groups=True)


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(block("yaml")))
SLICES = [from_builtins(ResourceSlice, each) for each in OBJECTS if each["kind"] == "ResourceSlice"]
CLAIMS = [from_builtins(ResourceClaim, each) for each in OBJECTS if each["kind"] == "ResourceClaim"]
CLASSES = {
    each["metadata"]["name"]: from_builtins(DeviceClass, each)
    for each in OBJECTS
    if each["kind"] == "DeviceClass"
}


def allocated(claim: ResourceClaim, *held: ResourceClaim) -> ResourceClaim:
    found = allocate(
        [claim], Inventory.of(SLICES), CLASSES, InUse.of(held), AllocationNode("node-1"), features=ON
    )
    return replace(claim, status=ClaimStatus(allocation=found[claim.ref]))


@pytest.mark.parametrize("order", list(permutations(CLAIMS)), ids=lambda order: order[0].metadata.name)
def test_the_first_claim_gets_its_device(order: tuple[ResourceClaim, ResourceClaim]) -> None:
    """The order is first mig then vgpu, and the reverse."""
    first, second = order
    holder = allocated(first)
    with pytest.raises(Refusal) as caught:
        allocated(second, holder)
    text = block("text").strip()
    if first.metadata.name == "vgpu":
        text = text.replace("mig, not vgpu", "vgpu, not mig")
    assert text in caught.value.text()


def test_a_second_claim_of_the_same_mode_is_served() -> None:
    holder = allocated(CLAIMS[0])
    assert allocated(CLAIMS[0], holder).results[0].device == "gpu-0-mig-1"


def test_the_groups_are_recorded_under_the_name_that_the_page_gives() -> None:
    assert PAGE.count(SNAPSHOT_DRIVER) == 2
