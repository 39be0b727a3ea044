"""The exact evaluator: a stack machine that keeps errors as values, counts cost and never recurses.

Every instruction is a function of the machine. An error is an ordinary value on the stack until something
absorbs it, as CEL wants: `&&` and `||` do, everything else passes it on.
"""

from collections.abc import Callable
from typing import TypeAlias

from dradriver.cel.evaluate import cost, steps
from dradriver.cel.evaluate.errors import AbortError, ErrorValue

__all__ = ["UNSET", "Instruction", "Machine", "Program", "execute", "located"]


class Machine:
    """The state of one evaluation.

    Attributes:
        stack: values in work.
        slots: variables of comprehensions and bindings.
        returns: where to go on when a lazily computed binding is done.
        position: of the next instruction.
        cost: so far, in CEL's units.
        steps: made so far.
        device: what `device` is.
    """

    __slots__ = ("cost", "device", "position", "returns", "slots", "stack", "steps")

    def __init__(self, device: object, slots: int) -> None:
        self.stack: list[object] = []
        self.slots: list[object] = [UNSET] * slots
        self.returns: list[int] = []
        self.position = 0
        self.cost = 0
        self.steps = 0
        self.device = device

    def spend(self, count: int) -> None:
        """Counts steps that are about to be made.

        Raises:
            AbortError: they exceed the limit of one evaluation.
        """
        self.steps += count
        if self.steps > steps.LIMIT:
            steps.check(self.steps)

    def check(self) -> None:
        """Ends an evaluation that has taken too much. Every round of a loop asks: little happens between two.

        Raises:
            AbortError: it cost more, or made more steps, than one evaluation may.
        """
        if self.cost > cost.LIMIT:
            raise AbortError(
                f"it costs more than {cost.LIMIT}", "look at fewer elements, or compare before you compute"
            )
        steps.check(self.steps)


Instruction: TypeAlias = Callable[[Machine], None]


class _Unset:
    __slots__ = ()


UNSET = _Unset()
"""A binding that nothing has asked for yet."""


class Program:
    """A compiled expression.

    Attributes:
        code: its instructions.
        slots: how many variables they use.
        steps: of running each instruction once, without the bodies of loops: these spend theirs in each round.
    """

    __slots__ = ("code", "slots", "steps")

    def __init__(self, code: list[Instruction], slots: int, steps: int) -> None:
        self.code = code
        self.slots = slots
        self.steps = steps


def execute(program: Program, device: object) -> tuple[object, int, int]:
    """Runs a program; returns its value, which may be a `ErrorValue`, its cost and its steps.

    Raises:
        AbortError: it takes more than one evaluation may, or Kubernetes' own evaluator would break off.
    """
    machine = Machine(device, program.slots)
    machine.steps = program.steps
    code = program.code
    end = len(code)
    while machine.position < end:
        instruction = code[machine.position]
        machine.position += 1
        instruction(machine)
    if machine.steps > steps.LIMIT or machine.cost > cost.LIMIT:
        machine.check()
    return machine.stack.pop(), machine.cost, machine.steps


def located(fault: ErrorValue, offset: int) -> ErrorValue:
    """The fault with its place, which the innermost failing step decides."""
    if fault.offset is None:
        fault.offset = offset
    return fault
