"""The instructions of the machine. Each instruction is built from values that are known at compile time."""

from typing import Final

from dradriver.cel.compile.functions import Overload, unit_cost
from dradriver.cel.evaluate.cost import COST_BY_OVERLOAD
from dradriver.cel.evaluate.equality import require_hashable
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.machine import UNSET, Instruction, Machine, locate
from dradriver.cel.evaluate.paths import is_present, qualify, qualify_optional
from dradriver.cel.evaluate.steps import CALL, LONG_TEXT
from dradriver.cel.evaluate.values import NONE, Optional, UInt, accepts, type_name

__all__ = [
    "Label",
    "bail",
    "branch",
    "call",
    "charge",
    "combine",
    "index",
    "jump",
    "load",
    "no_overload",
    "not_strictly_false",
    "push_constant",
    "push_device",
    "return_from_binding",
    "select",
    "skip_unless_container",
    "stop_if",
    "store",
    "test",
    "test_membership",
    "unset",
    "use_alternative",
]


class Label:
    """A place in the program. Its position is known only after all code is emitted.

    Attributes:
        position: the position of the instruction at this place.
        steps: for a label at the end of a loop: the steps of one round.
    """

    __slots__ = ("position", "steps")

    def __init__(self) -> None:
        self.position = -1
        self.steps = 0


_ERROR_STEPS: Final = 8
"""Steps of creating an error."""


def no_overload(what: str, offset: int) -> ErrorValue:
    """Return the error for a value whose type the operation `what` does not accept."""
    return ErrorValue(f"no such overload: {what}", None, offset)


# --- values -------------------------------------------------------------------------------


def push_constant(value: object) -> Instruction:
    """Return an instruction that pushes a value."""

    def run(machine: Machine) -> None:
        machine.stack.append(value)

    return run


def push_device(cost: int) -> Instruction:
    """Return an instruction that pushes the device."""

    def run(machine: Machine) -> None:
        machine.stack.append(machine.device)
        machine.cost += cost

    return run


def load(slot: int, lazy: Label | None, cost: int) -> Instruction:
    """Return an instruction that pushes a variable.

    If the variable is a lazy binding that is not yet computed, the code at `lazy` computes it first.
    """

    def run(machine: Machine) -> None:
        value = machine.slots[slot]
        if value is UNSET and lazy is not None:
            machine.returns.append(machine.position - 1)
            machine.position = lazy.position
        else:
            machine.stack.append(value)
            machine.cost += cost

    return run


def store(slot: int) -> Instruction:
    """Return an instruction that pops a value into a variable."""

    def run(machine: Machine) -> None:
        machine.slots[slot] = machine.stack.pop()

    return run


def unset(slot: int) -> Instruction:
    """Return an instruction that resets a lazy binding, because variables that it reads may have changed."""

    def run(machine: Machine) -> None:
        machine.slots[slot] = UNSET

    return run


def return_from_binding(machine: Machine) -> None:
    """Return to the place that used a lazy binding."""
    machine.position = machine.returns.pop()


def charge(cost: int) -> Instruction:
    """Return an instruction that adds `cost` to the cost of the evaluation."""

    def run(machine: Machine) -> None:
        machine.cost += cost

    return run


# --- paths --------------------------------------------------------------------------------


def select(field: str, offset: int, *, optional: bool) -> Instruction:
    """Return an instruction that replaces the top of the stack with one of its fields."""
    read = qualify_optional if optional else qualify
    hashing = len(field) // LONG_TEXT

    def run(machine: Machine) -> None:
        stack = machine.stack
        value = stack[-1]
        if value.__class__ is ErrorValue or value is NONE:
            return
        if hashing:
            machine.spend(hashing)
        try:
            stack[-1] = member = read(value, field)
        except ErrorValue as fault:
            machine.steps += _ERROR_STEPS
            stack[-1] = member = locate(fault, offset)
        machine.cost += member is not NONE

    return run


def test(field: str) -> Instruction:
    """Return an instruction that replaces the top of the stack with a bool: whether it has the field."""

    def run(machine: Machine) -> None:
        stack = machine.stack
        value = stack[-1]
        if value.__class__ is ErrorValue:
            return
        machine.cost += 1
        stack[-1] = is_present(value, field)

    return run


def index(offset: int, *, optional: bool) -> Instruction:
    """Return an instruction that pops an index and replaces the top of the stack with the element."""
    read = qualify_optional if optional else qualify

    def run(machine: Machine) -> None:
        stack = machine.stack
        key = stack.pop()
        if key.__class__ is ErrorValue:
            machine.cost += not optional
            stack[-1] = key
            return
        if isinstance(key, str) and len(key) > LONG_TEXT:
            machine.spend(len(key) // LONG_TEXT)
        try:
            stack[-1] = element = read(stack[-1], key)
        except ErrorValue as fault:
            machine.steps += _ERROR_STEPS
            stack[-1] = locate(fault, offset)
            machine.cost += not optional
        else:
            machine.cost += element is not NONE

    return run


def skip_unless_container(end: Label) -> Instruction:
    """Return an instruction that jumps to `end` if the top of the stack can't be indexed.

    This is the case for an error and for an absent value.
    """

    def run(machine: Machine) -> None:
        value = machine.stack[-1]
        if value.__class__ is ErrorValue or value is NONE:
            machine.position = end.position

    return run


# --- calls --------------------------------------------------------------------------------


def call(name: str, overloads: tuple[Overload, ...], count: int, offset: int) -> Instruction:
    """Return an instruction that pops the arguments and pushes the result of the first overload that fits."""
    # Kubernetes counts a plain cost if several overloads are possible and the cost depends on the overload.
    is_plain = len(overloads) > 1 and name in COST_BY_OVERLOAD
    choices = tuple(
        (
            overload,
            _is_guarded(overload),
            unit_cost if is_plain else overload.cost,
            overload.work,
            overload.metered,
        )
        for overload in overloads
    )
    _, _, error_cost, error_work, _ = choices[0]
    shown = name.strip("_@")

    def run(machine: Machine) -> None:
        stack = machine.stack
        start = len(stack) - count
        args = stack[start:]
        del stack[start:]
        for arg in args:
            if arg.__class__ is ErrorValue:
                if error_cost is not unit_cost and error_work is not None:
                    machine.spend(error_work(args))
                machine.cost += error_cost(args, arg)
                stack.append(arg)
                return
        for overload, guarded, cost, work, metered in choices:
            if guarded and not all(map(accepts, overload.params, args)):
                machine.steps += CALL
                continue
            if work is not None:
                machine.spend(work(args))
            try:
                result = overload.call(*args, spend=machine.spend) if metered else overload.call(*args)
            except ErrorValue as fault:
                machine.steps += _ERROR_STEPS
                result = locate(fault, offset)
            machine.cost += cost(args, result)
            stack.append(result)
            return
        machine.steps += _ERROR_STEPS
        if error_cost is not unit_cost and error_work is not None:
            machine.spend(error_work(args))
        refusal = no_overload(f"{shown}({', '.join(map(type_name, args))})", offset)
        machine.cost += error_cost(args, refusal)
        stack.append(refusal)

    return run


def _is_guarded(overload: Overload) -> bool:
    """Return whether a call must check its arguments, because some parameter does not accept every type."""
    return overload.guarded and any(not (param.is_parameter or param.is_dyn) for param in overload.params)


def bail(depth: int, end: Label) -> Instruction:
    """Return an instruction for an error on the top of the stack.

    The instruction drops the `depth` values below the error and jumps to `end`.
    """

    def run(machine: Machine) -> None:
        stack = machine.stack
        if stack[-1].__class__ is ErrorValue:
            if depth:
                del stack[-depth - 1 : -1]
            machine.position = end.position

    return run


def test_membership(values: frozenset[tuple[type, object]]) -> Instruction:
    """Return an instruction that replaces the top of the stack with a bool: whether it is in `values`."""

    def run(machine: Machine) -> None:
        value = machine.stack[-1]
        if value.__class__ is not ErrorValue:
            require_hashable(value)
            machine.stack[-1] = value.__class__ in CONSTANT_MEMBERS and (type(value), value) in values

    return run


CONSTANT_MEMBERS: Final = frozenset({bool, int, UInt, float, str})
"""Types of constants for which `in` looks up a hash instead of searching a list."""


def not_strictly_false(machine: Machine) -> None:
    """Replace an error with true, because a loop continues after an error."""
    machine.cost += 1
    if machine.stack[-1].__class__ is ErrorValue:
        machine.stack[-1] = True


# --- logic --------------------------------------------------------------------------------


def jump(target: Label) -> Instruction:
    """Return an instruction that jumps to `target`."""

    def run(machine: Machine) -> None:
        machine.position = target.position

    return run


def stop_if(decisive: bool, end: Label) -> Instruction:  # noqa: FBT001
    """Return an instruction that jumps to `end` if the operand decides: false for `&&`, true for `||`."""

    def run(machine: Machine) -> None:
        if machine.stack[-1] is decisive:
            machine.position = end.position

    return run


def combine(decisive: bool, offset: int) -> Instruction:  # noqa: FBT001
    """Return an instruction that pops an operand of `&&` or `||` and combines it with the result so far.

    If an operand is `decisive`, the result is this operand, and errors of other operands are ignored.
    """

    def run(machine: Machine) -> None:
        after = machine.stack.pop()
        before = machine.stack[-1]
        if after is decisive:
            machine.stack[-1] = decisive
        elif before.__class__ is ErrorValue:
            return
        elif before.__class__ is not bool:
            machine.stack[-1] = no_overload("a logical operator needs bools", offset)
        elif after.__class__ is bool or after.__class__ is ErrorValue:
            machine.stack[-1] = after
        else:
            machine.stack[-1] = no_overload("a logical operator needs bools", offset)

    return run


def branch(offset: int, no: Label, end: Label) -> Instruction:
    """Return an instruction that pops a condition and jumps to `no` if it is false.

    If the condition is not a bool, the instruction jumps to `end`.
    """

    def run(machine: Machine) -> None:
        condition = machine.stack[-1]
        if condition is True:
            machine.stack.pop()
        elif condition is False:
            machine.stack.pop()
            machine.position = no.position
        else:
            if condition.__class__ is not ErrorValue:
                machine.stack[-1] = no_overload("a condition must be a bool", offset)
            machine.position = end.position

    return run


def use_alternative(name: str, offset: int, end: Label) -> Instruction:
    """Return an instruction for `or` and `orValue`.

    If the optional on the top of the stack has a value, the instruction keeps the value and jumps to `end`.
    Otherwise it drops the optional and continues with the alternative.
    """
    keep = name == "or"

    def run(machine: Machine) -> None:
        value = machine.stack[-1]
        if isinstance(value, Optional):
            if not value.present:
                machine.stack.pop()
                return
            machine.stack[-1] = value if keep else value.value
        elif value.__class__ is not ErrorValue:
            machine.stack[-1] = no_overload(f"{name}() needs an optional", offset)
        machine.position = end.position

    return run
