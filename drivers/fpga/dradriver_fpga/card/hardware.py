"""The interface to hardware. Calls block; `Cards` runs them on threads."""

from typing import Protocol

from dradriver_fpga.card.values import Bitstream, Card

__all__ = ["Hardware"]


class Hardware(Protocol):
    """All FPGAs of a node. Every call may raise `CardError`, and any thread may call it.

    The content of a card is in the hardware and outlives the process. A process that dies while it programs
    leaves a region whose `bitstream` is "". That region has to be programmed again.
    """

    def open(self) -> None:
        """Start to detect changes of the cards. Call it once before all other calls."""

    def close(self) -> None:
        """Shut down. A running `wait_change` returns within its timeout."""

    def cards(self) -> tuple[Card, ...]:
        """Return the cards that are there now, by ID."""

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """Write a bitstream into a region, or into a whole card (a shell), and wait until it operates.

        Other regions of the card keep their content. A shell clears all regions. Nothing is written if the file
        is rejected.

        Args:
            target: ID of a region or a card.
            bitstream: the file to write.
            timeout: seconds until it has to operate.

        Raises:
            TargetNotFoundError: there is no such region or card.
            NotSupportedError: this node cannot program it.
            UnreadableBitstreamError, TooLargeError, WrongDigestError, IncompatibleError: the file is rejected.
            BusyError: the card is being programmed.
            ManagerFailedError: the manager ended in an error state.
            ToolFailedError: the vendor's program failed.
            CardGoneError: the card was pulled during programming.
            ProgrammingTimedOutError: programming took too long.
        """

    def forget(self, card: str) -> None:
        """Mark the content of a card and its regions as unknown, because another program may have changed it.

        The mark is durable when this returns. It still holds after the process dies.

        Args:
            card: ID of the card.

        Raises:
            TargetNotFoundError: there is no such card.
            CardError: the mark cannot be stored.
        """

    def wait_change(self, timeout: float) -> bool:
        """Return whether the cards may have changed since the last call. Waits up to `timeout` seconds.

        Several changes can be reported as one. Some changes, such as programming, are not reported. `cards`
        therefore has to be called from time to time.

        Raises:
            NotSupportedError: the node does not report changes.
        """
