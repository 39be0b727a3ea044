"""Instructions that make lists and maps, and loop over them."""

from dradriver.cel.evaluate import cost, steps
from dradriver.cel.evaluate.cost import LIST, MAP
from dradriver.cel.evaluate.equality import require_hashable
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.instructions import Label, charge, no_overload
from dradriver.cel.evaluate.machine import UNSET, Instruction, Machine
from dradriver.cel.evaluate.values import Optional, keys_of, to_key, type_name

__all__ = ["LIST_COST", "MAP_COST", "drop", "enter", "leave", "make_list", "make_map", "next_item"]

# --- literals -----------------------------------------------------------------------------


def make_list(optional: tuple[bool, ...], offset: int) -> Instruction:
    """Return an instruction that pops elements and pushes a list of the present elements."""

    def run(machine: Machine) -> None:
        start = len(machine.stack) - len(optional)
        elements = machine.stack[start:]
        del machine.stack[start:]
        machine.stack.append(_drop_absent(elements, optional, offset))

    return run


def _drop_absent(elements: list[object], optional: tuple[bool, ...], offset: int) -> object:
    present: list[object] = []
    for element, is_optional in zip(elements, optional, strict=True):
        if not is_optional:
            present.append(element)
        elif not isinstance(element, Optional):
            return no_overload("a ?element must be optional", offset)
        elif element.present:
            present.append(element.value)
    return tuple(present)


def make_map(optional: tuple[bool, ...], offset: int) -> Instruction:
    """Return an instruction that pops keys and values and pushes a map of the present entries."""
    count = 2 * len(optional)

    def run(machine: Machine) -> None:
        start = len(machine.stack) - count
        parts = machine.stack[start:]
        del machine.stack[start:]
        machine.stack.append(_make_entries(parts, optional, offset))

    return run


def _make_entries(parts: list[object], optional: tuple[bool, ...], offset: int) -> object:
    entries: dict[object, object] = {}
    for key, value, is_optional in zip(parts[::2], parts[1::2], optional, strict=True):
        require_hashable(key)
        if not is_optional:
            entries[to_key(key)] = value
        elif not isinstance(value, Optional):
            return no_overload("a ?entry must be optional", offset)
        elif value.present:
            entries[to_key(key)] = value.value
        else:
            entries.pop(to_key(key), None)
    return entries


LIST_COST = charge(LIST)
MAP_COST = charge(MAP)


# --- loops --------------------------------------------------------------------------------


def enter(offset: int, end: Label, *, pairs: bool) -> Instruction:
    """Return an instruction that replaces a list or map with an iterator.

    For any other value the instruction jumps to `end` with an error.
    """

    def run(machine: Machine) -> None:
        source = machine.stack[-1]
        if isinstance(source, dict):
            machine.spend(len(source) // 4)
            keys = list(keys_of(source))
            machine.stack[-1] = iter(zip(keys, source.values(), strict=True) if pairs else keys)
        elif isinstance(source, tuple | list):
            machine.stack[-1] = enumerate(source) if pairs else iter(source)
        else:
            if source.__class__ is not ErrorValue:
                machine.stack[-1] = ErrorValue(f"a {type_name(source)} has no elements", None, offset)
            machine.position = end.position

    return run


def next_item(slots: tuple[int, int | None], end: Label) -> Instruction:
    """Return an instruction that stores the next element in the variables of the loop.

    If there is no next element, the instruction jumps to `end`.
    """
    first, second = slots

    def run(machine: Machine) -> None:
        machine.steps += end.steps
        if machine.steps > steps.LIMIT or machine.cost > cost.LIMIT:
            machine.check()
        item = next(machine.stack[-1], UNSET)  # type: ignore[call-overload]
        if item is UNSET:
            machine.position = end.position
        elif second is None:
            machine.slots[first] = item
        else:
            machine.slots[first], machine.slots[second] = item

    return run


def leave(end: Label) -> Instruction:
    """Return an instruction that pops the condition of a loop and jumps to `end` if it is false."""

    def run(machine: Machine) -> None:
        if machine.stack.pop() is False:
            machine.position = end.position

    return run


def drop(machine: Machine) -> None:
    """Pop the iterator of a loop that has ended."""
    machine.stack.pop()
