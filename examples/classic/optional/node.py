"""The node driver of the optional resource: containers learn by a variable which card they have.

A claim without a card has an empty allocation. Then the kubelet calls no driver, and the variable is missing.
"""

from collections.abc import Mapping

import dradriver as dra


class CardDriver(dra.Driver):
    name = "card.example.com"

    def discover(self) -> list[dra.Device]:
        return []  # the controller knows the cards of all nodes: they are in no slice

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        return {device: self.edits(device.name) for device in claim.devices}

    def edits(self, card: str) -> dra.ContainerEdits:
        path, variable = f"/dev/{card}", f"CARD_{card.upper().replace('-', '_')}"
        return dra.ContainerEdits(env={variable: path}, device_nodes=[dra.DeviceNode(path)])


if __name__ == "__main__":
    dra.run(CardDriver)
