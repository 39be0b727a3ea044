"""A driver whose cards are entries of a folder: the end-to-end tests pull, break and inspect them there.

`HARDWARE/cards` holds the number of cards. A prepared claim is a folder `HARDWARE/claims/UID` with a file for
each of its cards; `HARDWARE/health/NAME` holds `Healthy`, `Unhealthy` or `Unknown`.
"""

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import dradriver as dra

HARDWARE = Path(os.environ.get("HARDWARE", ""))


class CardsDriver(dra.Driver):
    """A container sees its card as /dev/NAME, by name in CARD_NAME, and as device metadata."""

    name = "cards.example.com"
    rescan_seconds = 0.5

    def discover(self) -> Iterable[dra.Device]:
        """As many cards as the folder says."""
        count = int((HARDWARE / "cards").read_text())
        return [dra.Device(f"card-{index}", {"index": index}) for index in range(count)]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """A file for each card."""
        folder = HARDWARE / "claims" / claim.uid
        folder.mkdir(parents=True, exist_ok=True)
        for card in claim.devices:
            (folder / card.name).touch()
        return {card: self._prepared(card.name) for card in claim.devices}

    def _prepared(self, card: str) -> dra.PreparedDevice:
        variable = "CARD_" + card.removeprefix("card-")
        node = dra.DeviceNode(f"/dev/{card}", host_path="/dev/full")
        edits = dra.ContainerEdits(env={variable: card}, device_nodes=[node])
        return dra.PreparedDevice(edits, metadata={"serial": f"serial-of-{card}"}, data={"card": card})

    def unprepare(self, claim: dra.Claim) -> None:
        """The files go."""
        shutil.rmtree(HARDWARE / "claims" / claim.uid, ignore_errors=True)

    def prepared_claims(self) -> Collection[str]:
        """What the folder knows."""
        return [entry.name for entry in (HARDWARE / "claims").glob("*")]

    def health(self) -> Iterator[Iterable[dra.DeviceHealth]]:
        """What `HARDWARE/health` says, when it changes."""
        told: dict[str, str] = {}
        while True:
            for file in sorted((HARDWARE / "health").glob("card-*")):
                word = file.read_text().strip()
                if word and told.get(file.name) != word:
                    told[file.name] = word
                    yield [dra.DeviceHealth(file.name, dra.Health(word), check_timeout=600)]
            time.sleep(0.1)


if __name__ == "__main__":
    dra.run(CardsDriver)
