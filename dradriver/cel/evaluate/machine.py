"""The exact evaluator: a stack machine that keeps errors as values, counts cost and never recurses.

Every instruction is a function of the machine. An error is an ordinary value on the stack until an operator
absorbs it, as CEL requires: `&&` and `||` absorb errors, everything else passes them on.
"""

from collections.abc import Callable
from typing import TypeAlias

from dradriver.cel.evaluate import cost, steps
from dradriver.cel.evaluate.errors import AbortError, ErrorValue

__all__ = ["UNSET", "Instruction", "Machine", "Program", "execute", "located"]


class Machine:
    """The state of one evaluation.

    Attributes:
        stack: the intermediate values.
        slots: variables of comprehensions and bindings.
        returns: the positions at which evaluation continues after a lazy binding.
        position: the position of the next instruction.
        cost: the cost so far, in CEL's units.
        steps: the steps so far.
        device: the value of `device`.
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
        """Count steps before they are made.

        Raises:
            AbortError: they exceed the limit of one evaluation.
        """
        self.steps += count
        if self.steps > steps.LIMIT:
            steps.check(self.steps)

    def check(self) -> None:
        """End an evaluation that exceeds its limits.

        It is called in every round of a loop, because little work happens between two calls.

        Raises:
            AbortError: the cost or the steps exceed the limit of one evaluation.
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
"""The value of a lazy binding before its first use."""


class Program:
    """A compiled expression.

    Attributes:
        code: its instructions.
        slots: the number of variables that they use.
        steps: the steps of running each instruction once, without the bodies of loops, which spend their own
            steps in each round.
    """

    __slots__ = ("code", "slots", "steps")

    def __init__(self, code: list[Instruction], slots: int, steps: int) -> None:
        self.code = code
        self.slots = slots
        self.steps = steps


def execute(program: Program, device: object) -> tuple[object, int, int]:
    """Run a program and return its value, its cost and its steps. The value may be an `ErrorValue`.

    Raises:
        AbortError: it exceeds the limits of one evaluation, or Kubernetes' own evaluator would end here.
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
    """Return the error with its place. The innermost failing step determines the place."""
    if fault.offset is None:
        fault.offset = offset
    return fault
