"""The door to hardware. Calls block; `Cards` makes them where blocking is allowed."""

from typing import Protocol

from dradriver_fpga.card.values import Bitstream, Card

__all__ = ["Hardware"]


class Hardware(Protocol):
    """All FPGAs of a node. Every call may raise `CardError`, and may come from any thread.

    What is programmed lives in the hardware and outlives the process, whenever that dies. A process that dies
    while it programs leaves a region whose `bitstream` is "": it is to be programmed again.
    """

    def open(self) -> None:
        """Begins: what becomes of the cards is noticed from now on. To be called once, before all else."""

    def close(self) -> None:
        """Ends; a `wait_change` that is under way returns within its timeout."""

    def cards(self) -> tuple[Card, ...]:
        """The cards that are there now, by ID."""

    def program(self, target: str, bitstream: Bitstream, *, timeout: float) -> None:
        """Writes a bitstream into a region, or into a whole card (a shell), and waits until it operates there.

        Other regions of the card keep what they hold; a shell clears all of them. Nothing is written when the
        file is refused.

        Args:
            target: the ID of a region or of a card.
            bitstream: what to write.
            timeout: seconds until it must operate.

        Raises:
            TargetNotFoundError: there is no such region or card.
            NotSupportedError: this node can't program it.
            UnreadableBitstreamError, TooLargeError, WrongDigestError, IncompatibleError: the file is refused.
            BusyError: the card is being programmed.
            ManagerFailedError: the manager ended in an error state.
            ToolFailedError: the vendor's program did.
            CardGoneError: the card was pulled meanwhile.
            ProgrammingTimedOutError: it took too long.
        """

    def forget(self, card: str) -> None:
        """Somebody else may have programmed the card: what it and its regions hold is not known for certain.

        Durable when it returns: a process that dies after it finds nothing certain either.

        Args:
            card: its ID.

        Raises:
            TargetNotFoundError: there is no such card.
            CardError: that can't be kept.
        """

    def wait_change(self, timeout: float) -> bool:
        """Whether something may have become of the cards since the last call; waits `timeout` seconds for it.

        Many changes are told as one, and some are told by nobody (programming is not): `cards` has to be asked
        from time to time all the same.

        Raises:
            NotSupportedError: the node tells no changes.
        """
