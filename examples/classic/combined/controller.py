"""A controller that sets up two functions of a card together: an FPGA block and a network port (KEP-3063).

One claim gets a pipeline: a block and a port of one card, as of Intel's FPGA N3000. Each function has its own
kubelet plugin, and each plugin gets its own handle. The cards of each node are in `$PIPELINE_CARDS`, such as
`{"node-1": {"card-0": {"blocks": 2, "ports": ["eth1", "eth2"]}}}`. The record of the allocations is the file
`$PIPELINE_RECORD`.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

import dradriver as dra
from examples.classic.record import HardwareRecord

FPGA, NIC = "fpga.pipeline.example.com", "nic.pipeline.example.com"
"""The kubelet plugins of the two functions."""


class PipelineClaim(dra.Config):
    """Parameters of a claim. Users write it under `ControllerClaim.parameters`.

    Attributes:
        image: the image that the FPGA block is programmed with.
        vlan: the VLAN of the network port.
    """

    api_version = "pipeline.example.com/v1"
    kind = "PipelineClaim"
    image: str
    vlan: int = 0


class CardFunctions(msgspec.Struct, frozen=True):
    """The functions of one card.

    Attributes:
        blocks: number of FPGA blocks.
        ports: names of the network ports.
    """

    blocks: int
    ports: tuple[str, ...]


class Pipeline(NamedTuple):
    """One block and one port of one card, as the record keeps it."""

    node: str
    card: str
    block: str
    port: str


class PipelineController(dra.ControllerDriver):
    name = "pipeline.example.com"
    claim_configs = (PipelineClaim,)

    def __init__(
        self, cards: Mapping[str, Mapping[str, CardFunctions]] | None = None, record: Path | None = None
    ) -> None:
        text = os.environ.get("PIPELINE_CARDS", "{}")
        self._cards = cards or msgspec.json.decode(text, type=dict[str, dict[str, CardFunctions]])
        self._record = HardwareRecord(record or Path(os.environ.get("PIPELINE_RECORD", "pipelines.json")))

    def claim_parameters(
        self,
        claim: str,
        parameters: dra.Config | None,
        class_parameters: object,  # noqa: ARG002 - the classes have none
    ) -> dra.Config:
        """Return the parameters, which every claim must have: a block cannot be programmed without an image."""
        if parameters is None:
            raise dra.AllocationError(f"claim {claim}: parameters: must have a {PipelineClaim.kind}")
        return parameters

    def unsuitable_nodes(
        self,
        pod: dra.PendingPod,  # noqa: ARG002 - the claims contain everything
        claims: Sequence[dra.PendingClaim],
        nodes: Sequence[str],
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes whose cards do not have a block and a port for each of the claims."""
        record = self._record.read()
        count = sum(claim.uid not in record for claim in claims)
        unsuitable = [node for node in nodes if len(list(self._list_free(record, node))) < count]
        return {claim.uid: unsuitable for claim in claims}

    def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        """Take a pipeline for each claim. The record is written before anything is programmed on the node."""
        results: dict[str, dra.ControllerAllocationResult | dra.AllocationError] = {}
        with self._record.change() as record:
            for claim in claims:
                if claim.uid not in record:
                    nodes = [node] if node else sorted(self._cards)
                    free = next((each for node in nodes for each in self._list_free(record, node)), None)
                    if free is None:
                        reason = f"no card of {' and '.join(nodes)} has both a free block and a free port"
                        results[claim.uid] = dra.AllocationError(reason)
                        continue
                    record[claim.uid] = list(free)
                results[claim.uid] = make_result(claim, Pipeline(*record[claim.uid]))
        return results

    def deallocate(self, claim: dra.RecordedClaim) -> None:
        with self._record.change() as record:
            record.pop(claim.uid, None)

    def allocations(self) -> Collection[str]:
        return self._record.read().keys()

    def _list_free(self, record: Mapping[str, Sequence[str]], node: str) -> Iterator[Pipeline]:
        """Yield the pipelines that the cards of a node can make together."""
        used = [Pipeline(*fields) for fields in record.values()]
        for card, functions in self._cards.get(node, {}).items():
            here = [each for each in used if (each.node, each.card) == (node, card)]
            blocks = [f"block-{number}" for number in range(functions.blocks)]
            free_blocks = [each for each in blocks if each not in {pipeline.block for pipeline in here}]
            free_ports = [each for each in functions.ports if each not in {pipeline.port for pipeline in here}]
            for block, port in zip(free_blocks, free_ports, strict=False):
                yield Pipeline(node, card, block, port)


def make_result(claim: dra.PendingClaim, pipeline: Pipeline) -> dra.ControllerAllocationResult:
    """Return the allocation of a claim: two devices for two kubelet plugins, with a handle for each plugin."""
    (request,) = claim.requests
    parameters = request.claim_parameters
    assert isinstance(parameters, PipelineClaim)
    pool = f"{PipelineController.name}/{pipeline.node}"
    return dra.ControllerAllocationResult(
        devices=[
            dra.ControllerDevice(request.name, FPGA, pool, f"{pipeline.card}-{pipeline.block}"),
            dra.ControllerDevice(request.name, NIC, pool, f"{pipeline.card}-{pipeline.port}"),
        ],
        handles={
            FPGA: json.dumps({"block": pipeline.block, "image": parameters.image}).encode(),
            NIC: json.dumps({"port": pipeline.port, "vlan": parameters.vlan}).encode(),
        },
        node_selector=dra.NodeSelector.for_node(pipeline.node),
    )


if __name__ == "__main__":
    dra.run(PipelineController)
