"""The exact evaluator: a stack machine that treats errors as values, counts the cost and never recurses.

Every instruction is a function of the machine. An error is an ordinary value on the stack until an operator
absorbs it, as CEL requires: `&&` and `||` absorb errors, and all other operators pass them on.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from dradriver.cel.evaluate import cost, steps
from dradriver.cel.evaluate.errors import AbortError, ErrorValue

__all__ = ["UNSET", "Instruction", "Machine", "Program", "execute", "locate"]


class Machine:
    """The state of one evaluation.

    Attributes:
        stack: the intermediate values.
        slots: variables of comprehensions and bindings.
        returns: the positions at which the evaluation continues after the value of a lazy binding is computed.
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
            AbortError: the steps exceed the limit of one evaluation.
        """
        self.steps += count
        if self.steps > steps.LIMIT:
            steps.check(self.steps)

    def check(self) -> None:
        """End an evaluation that exceeds its limits.

        It is called in every round of a loop. Without a loop, a program does too little work to exceed the
        limits by much.

        Raises:
            AbortError: the cost or the steps exceed the limit of one evaluation.
        """
        if self.cost > cost.LIMIT:
            raise AbortError(
                f"the evaluation costs more than {cost.LIMIT}",
                "read fewer elements, or compare before computing",
            )
        steps.check(self.steps)


Instruction: TypeAlias = Callable[[Machine], None]


class _Unset:
    __slots__ = ()


UNSET = _Unset()
"""The value of a lazy binding before the binding is first used."""


class Program:
    """A compiled expression.

    Attributes:
        code: its instructions.
        slots: the number of variables that the instructions use.
        steps: the steps of running each instruction once. The bodies of loops are not included; they count
            their steps in each round.
        literals: the positions of the instructions that push a literal, with the literal's offset.
    """

    __slots__ = ("code", "literals", "slots", "steps")

    def __init__(self, code: list[Instruction], slots: int, steps: int, literals: Mapping[int, int]) -> None:
        self.code = code
        self.slots = slots
        self.steps = steps
        self.literals = literals


def execute(program: Program, device: object) -> tuple[object, int, int]:
    """Run a program and return its value, its cost and its steps. The value may be an `ErrorValue`.

    Raises:
        AbortError: the evaluation exceeds its limits, or Kubernetes' evaluator would also abort it.
    """
    machine = Machine(device, program.slots)
    machine.steps = program.steps
    code = program.code
    end = len(code)
    try:
        while machine.position < end:
            instruction = code[machine.position]
            machine.position += 1
            instruction(machine)
        if machine.steps > steps.LIMIT or machine.cost > cost.LIMIT:
            machine.check()
    except AbortError as abort:
        # Steps are counted before they are made, and the last ones are not made.
        abort.steps = min(machine.steps, steps.LIMIT)
        raise
    return machine.stack.pop(), machine.cost, machine.steps


def locate(fault: ErrorValue, offset: int) -> ErrorValue:
    """Return the error with its position. An error that already has a position keeps it."""
    if fault.offset is None:
        fault.offset = offset
    return fault
