"""The interface to hardware. Calls block; `FpgaCards` runs them on threads."""

from typing import Protocol

from dradriver_fpga.card.values import Bitstream, FpgaCard

__all__ = ["FpgaHardware"]


class FpgaHardware(Protocol):
    """All FPGAs of a node. Every call may raise `FpgaError`, and any thread may call it.

    The content of a card is in the hardware and outlives the process. If a process dies while it programs a
    region, the region's `bitstream` is "" afterwards. The caller must then program the region again.
    """

    def open(self) -> None:
        """Start to detect changes of the cards. Call it once before all other calls."""

    def close(self) -> None:
        """Shut down. A running `wait_change` returns within its timeout.

        Waits for writes to memory of a card that keeps its content without power, for example of a shell.
        """

    def cards(self) -> tuple[FpgaCard, ...]:
        """Return the present cards, sorted by ID."""

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """Write a bitstream into a region, or into a whole card (a shell), and wait until the target operates.

        Other regions of the card keep their content. Writing a shell clears all regions. If the file is
        rejected, nothing is written.

        Args:
            target: ID of a region or a card.
            bitstream: the file to write.
            timeout: seconds until the target must operate.

        Raises:
            TargetNotFoundError: the region or card does not exist.
            FpgaNotSupportedError: this node cannot program the target.
            UnreadableBitstreamError, TooLargeError, WrongDigestError, IncompatibleError: the file is rejected.
            BusyError: the card is being programmed.
            ManagerFailedError: the manager ended in an error state.
            ToolFailedError: the vendor's program failed.
            CardGoneError: the card was pulled during programming.
            ProgrammingTimedOutError: programming took too long.
        """

    def invalidate(self, card: str) -> None:
        """Mark the content of a card and its regions as unknown, because another program may have changed it.

        When this method returns, the mark is durable. It remains even if the process dies.

        Args:
            card: ID of the card.

        Raises:
            TargetNotFoundError: the card does not exist.
            FpgaError: the mark cannot be stored.
        """

    def wait_change(self, timeout: float) -> bool:
        """Return whether the cards may have changed since the last call. Waits up to `timeout` seconds.

        Several changes can be reported as one. Some changes, such as programming, are not reported. The caller
        must therefore call `cards` from time to time.

        Args:
            timeout: seconds to wait; 0: return at once.

        Raises:
            FpgaNotSupportedError: the node does not report changes.
        """
