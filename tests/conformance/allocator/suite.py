"""One suite for every allocator: the cases in `cases`, each a story of pods on nodes.

A case is a YAML file:

    kep: the paragraph that it is about
    corrected: what had to be changed in the KEP's own YAML, and why
    features: feature gates that differ from Kubernetes' defaults
    a100: GPUs per node, instead of or beside slices (see `a100`)
    slices, classes: as manifests; apiVersion and kind may be left out
    held: claims with an allocation, from before the story
    node: where the pods go, {name, labels}
    pods: in order; each has claims and either `gets` or `refused`

`gets` has for each claim {request: device or devices}, and where it matters `selector` (its node selector,
`all` for none) and `config` (source and requests of each entry). `refused` has the kind, and if it matters the
request and words of the explanation. What a pod gets is in use for the pods after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from dradriver.model.encoding.codec import builtins, from_builtins
from dradriver.model.resource.claim import Allocation, ClaimStatus, ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from tests.conformance.allocator.a100 import Json, a100_slices

CASES: Final = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Situation:
    """The input of an allocator for one pod."""

    claims: Sequence[ResourceClaim]
    slices: Sequence[ResourceSlice]
    classes: Mapping[str, DeviceClass]
    others: Sequence[ResourceClaim]
    node: str
    labels: Mapping[str, str]
    gates: Mapping[str, bool]


@dataclass(frozen=True)
class Refused:
    """A refusal in the terms of the cases; an allocator that knows less leaves fields empty."""

    kind: str
    request: str
    text: str


class AllocatorSuite:
    """Subclass it, implement `allocate`, and every case is a test."""

    def allocate(self, situation: Situation) -> Mapping[str, Allocation] | Refused:
        """Return the allocation of each claim by UID, or the refusal."""
        raise NotImplementedError

    @pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
    def test_case(self, case: Path) -> None:
        story = yaml.safe_load(case.read_text())
        node = story.get("node", {"name": "node-1"})
        slices = [*a100_slices(node["name"], story.get("a100", 0)), *story.get("slices", [])]
        others = [_claim(held) for held in story.get("held", [])]
        for number, pod in enumerate(story["pods"]):
            wanted = [_claim(claim) for claim in pod["claims"]]
            there = pod.get("node", node)
            outcome = self.allocate(
                Situation(
                    claims=wanted,
                    slices=[from_builtins(ResourceSlice, raw) for raw in slices],
                    classes={c["metadata"]["name"]: from_builtins(DeviceClass, c) for c in story["classes"]},
                    others=others,
                    node=there["name"],
                    labels=there.get("labels", {}),
                    gates=story.get("features", {}),
                )
            )
            title = pod.get("title", f"pod {number + 1}")
            if "refused" in pod:
                _check_refused(title, pod["refused"], outcome)
            else:
                others += _check_gets(title, pod["gets"], wanted, outcome)


def _claim(raw: Json) -> ResourceClaim:
    metadata = {"namespace": "default", "uid": raw["metadata"]["name"], **raw["metadata"]}
    return from_builtins(ResourceClaim, {**raw, "metadata": metadata})


def _check_refused(title: str, expected: Json, outcome: Mapping[str, Allocation] | Refused) -> None:
    assert isinstance(outcome, Refused), f"{title}: allocated: {_format(outcome)}"
    assert outcome.kind == expected["kind"], f"{title}: {outcome.text}"
    if "request" in expected:
        assert outcome.request == expected["request"], f"{title}: {outcome.text}"
    for words in expected.get("says", []):
        assert words in outcome.text, title


def _check_gets(
    title: str,
    expected: Json,
    wanted: Sequence[ResourceClaim],
    outcome: Mapping[str, Allocation] | Refused,
) -> list[ResourceClaim]:
    assert not isinstance(outcome, Refused), f"{title}: {outcome.text}"
    shown = _format(outcome)
    for name, claim in expected.items():
        for key, value in claim.items():
            assert shown[name][key] == value, f"{title}, claim {name}: {key}"
    assert set(shown) == set(expected), title
    return [
        msgspec.structs.replace(claim, status=ClaimStatus(allocation=outcome[claim.metadata.uid]))
        for claim in wanted
    ]


def _format(outcome: Mapping[str, Allocation]) -> dict[str, Json]:
    """Return allocations in the form of the cases."""
    return {uid: _shown_one(allocation) for uid, allocation in outcome.items()}


def _shown_one(allocation: Allocation) -> Json:
    devices: dict[str, list[str]] = {}
    for result in allocation.devices.results:
        devices.setdefault(result.request, []).append(result.device)
    selector: Any = builtins(allocation.node_selector) if allocation.node_selector else "all"
    return {
        "devices": {name: found[0] if len(found) == 1 else found for name, found in devices.items()},
        "selector": selector,
        "config": [{"source": c.source, "requests": c.requests} for c in allocation.devices.config],
        "results": builtins(allocation.devices.results),
    }
