"""The exact evaluator: a stack machine that keeps errors as values, counts cost and never recurses.

Every instruction is a function of the machine. An error is an ordinary value on the stack until something
absorbs it, as CEL wants: `&&` and `||` do, everything else passes it on.
"""

from collections.abc import Callable
from typing import TypeAlias

from dradriver.cel.cost import LIMIT
from dradriver.cel.errors import AbortError, Fault

__all__ = ["UNSET", "Instruction", "Machine", "execute"]


class Machine:
    """The state of one evaluation.

    Attributes:
        stack: values in work.
        slots: variables of comprehensions and bindings.
        returns: where to go on when a lazily computed binding is done.
        position: of the next instruction.
        cost: so far.
        device: what `device` is.
    """

    __slots__ = ("cost", "device", "position", "returns", "slots", "stack")

    def __init__(self, device: object, slots: int) -> None:
        self.stack: list[object] = []
        self.slots: list[object] = [UNSET] * slots
        self.returns: list[int] = []
        self.position = 0
        self.cost = 0
        self.device = device


Instruction: TypeAlias = Callable[[Machine], None]


class _Unset:
    __slots__ = ()


UNSET = _Unset()
"""A binding that nothing has asked for yet."""


def execute(code: list[Instruction], slots: int, device: object) -> tuple[object, int]:
    """Runs a program; returns its value, which may be a `Fault`, and its cost.

    Raises:
        AbortError: it cost more than one evaluation may, or Kubernetes' own evaluator would break off.
    """
    machine = Machine(device, slots)
    end = len(code)
    while machine.position < end:
        instruction = code[machine.position]
        machine.position += 1
        instruction(machine)
        if machine.cost > LIMIT:
            raise AbortError(
                f"it costs more than {LIMIT}", "look at fewer elements, or compare before you compute"
            )
    return machine.stack.pop(), machine.cost


def located(fault: Fault, offset: int) -> Fault:
    """The fault with its place, which the innermost failing step decides."""
    if fault.offset is None:
        fault.offset = offset
    return fault
