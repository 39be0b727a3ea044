"""A driver with entries of a folder as cards: the end-to-end tests remove, break and inspect them there.

`HARDWARE/cards` contains the number of cards. A prepared claim is a folder `HARDWARE/claims/UID` with a file
for each of its cards; `HARDWARE/health/NAME` contains `Healthy`, `Unhealthy` or `Unknown`.
"""

import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import dradriver as dra

HARDWARE = Path(os.environ.get("HARDWARE", ""))


class CardsDriver(dra.Driver):
    """Give a container its card as /dev/NAME, its name as CARD_NAME, and device metadata."""

    name = "cards.example.com"
    rescan_seconds = 0.5

    def discover(self) -> Iterable[dra.Device]:
        """Return as many cards as the folder names."""
        count = int((HARDWARE / "cards").read_text())
        return [dra.Device(f"card-{index}", {"index": index}) for index in range(count)]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        """Create a file for each card."""
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
        """Remove the files."""
        shutil.rmtree(HARDWARE / "claims" / claim.uid, ignore_errors=True)

    def prepared_claims(self) -> Collection[str]:
        """Return the claims in the folder."""
        return [entry.name for entry in (HARDWARE / "claims").glob("*")]

    def health(self) -> Iterator[Iterable[dra.DeviceHealth]]:
        """Yield the health in `HARDWARE/health` at each change."""
        reported: dict[str, str] = {}
        while True:
            for file in sorted((HARDWARE / "health").glob("card-*")):
                word = file.read_text().strip()
                if word and reported.get(file.name) != word:
                    reported[file.name] = word
                    yield [dra.DeviceHealth(file.name, dra.Health(word), check_timeout=600)]
            time.sleep(0.1)


if __name__ == "__main__":
    dra.run(CardsDriver)
