"""FPGAs as devices of DRA: found in sysfs, followed by uevents, programmed while a pod waits.

Law of this package: what can be known of a card is asked of the card. `card` is the hardware; the rest is the
driver, and sees hardware through `card` alone.
"""

from dradriver_fpga.configs import FpgaConfig
from dradriver_fpga.driver import FpgaDriver

__all__ = ["FpgaConfig", "FpgaDriver"]
