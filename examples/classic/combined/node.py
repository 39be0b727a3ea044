"""The two kubelet plugins of a card. Each prepares its own function, from its own handle.

Run both on every node with a card: `dradriver run examples.classic.combined.node:FpgaDriver`, and
`dradriver run examples.classic.combined.node:NicDriver`.
"""

import json
from collections.abc import Mapping
from typing import Any

import dradriver as dra
from examples.classic.combined.controller import FPGA, NIC


class CardFunctionDriver(dra.Driver):
    """What both plugins have in common: the controller knows all cards, and they are in no slice."""

    def discover(self) -> list[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {device: self.edits(json.loads(device.handle or b"{}")) for device in claim.devices}

    def edits(self, handle: Mapping[str, Any]) -> dra.ContainerEdits:
        raise NotImplementedError


class FpgaDriver(CardFunctionDriver):
    name = FPGA

    def edits(self, handle: Mapping[str, Any]) -> dra.ContainerEdits:
        return dra.ContainerEdits(env={"FPGA_BLOCK": handle["block"], "FPGA_IMAGE": handle["image"]})


class NicDriver(CardFunctionDriver):
    name = NIC

    def edits(self, handle: Mapping[str, Any]) -> dra.ContainerEdits:
        return dra.ContainerEdits(env={"NIC_PORT": handle["port"], "NIC_VLAN": str(handle["vlan"])})
