"""DRA driver for FPGAs: it finds cards in sysfs, follows uevents, and programs cards while a pod waits.

Law of this package: the driver must read the properties of a card from the card. Only `card` touches hardware.
All other modules reach the hardware through the names that `card` exports.

- `driver`: `FpgaDriver`, the class that the SDK calls.
- `factory`: chooses real or simulated cards.
- `settings`: operator settings of a node (`$FPGA_SETTINGS`).
- `configs`: opaque parameters of claims and device classes.
- `node`: the present cards of a node, and the cards that were pulled recently.
- `programming`: programs a device for a claim.
- `attach_errors`: maps failures to conditions in a claim's status.
- `containers`: CDI edits of a device.
- `hotplug`: plugs and pulls simulated cards in demonstrations.
- `urls`: parses URLs, and rejects ambiguous ones.
- `card`: the hardware, real or simulated.
- `bitstreams`: fetches, caches and checks bitstreams.
- `offer`: computes the pool of devices.
"""

from dradriver_fpga.configs import FpgaConfig
from dradriver_fpga.driver import FpgaDriver

__all__ = ["FpgaConfig", "FpgaDriver"]
