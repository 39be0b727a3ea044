"""Random device selectors in the idioms that users write, about the values that devices publish."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

__all__ = ["Values", "random_selector"]

Values = Mapping[str, Sequence[str | int]]
"""The attributes of one driver's devices: for each name without a domain, the published values."""

_OTHERWISE: Final = {str: "'none'", int: "0"}


def random_selector(chance: Random, driver: str, values: Values, *, may_fail: bool) -> str:
    """Return a selector for devices of this driver.

    Args:
        chance: the source of randomness.
        driver: the driver.
        values: the values of the driver's devices. There must be at least one.
        may_fail: whether the selector may read an attribute that some devices lack.
    """
    one = _comparison(chance, driver, values, may_fail=may_fail)
    if chance.random() < 0.7:
        return one
    other = _comparison(chance, driver, values, may_fail=may_fail)
    return chance.choice((
        f"{one} && {other}", f"{one} && {other}", f"{one} || {other}", f"!({one})", f"{one} ? {other} : false",
        f"device.driver == '{driver}' && {one} && {other}", f"({one} || {other}) && {one}",
        f"device.driver != '{driver}' || {one}",
    ))  # fmt: skip


def _comparison(chance: Random, driver: str, values: Values, *, may_fail: bool) -> str:
    name = chance.choice(sorted(values))
    domain, _, short = name.rpartition("/")
    attributes = f"device.attributes['{domain or driver}']"
    test = _test(chance, values[name])
    otherwise = _OTHERWISE[type(values[name][0])]
    field = f"{attributes}.{short}"
    idioms: list[Callable[[], str]] = [
        lambda: test(f"{attributes}.?{short}.orValue({otherwise})"),
        lambda: f"'{short}' in {attributes} && {test(field)}",
        lambda: f"has({field}) && {test(field)}",
        lambda: f"(has({field}) ? {test(field)} : {chance.choice(('true', 'false'))})",
        lambda: f"cel.bind(a, {attributes}, has(a.{short}) && {test(f'a.{short}')})",
        lambda: f"cel.bind(v, {attributes}.?{short}.orValue({otherwise}), {test('v')})",
        lambda: f"'{short}' in {attributes}",
        lambda: f"{attributes}.exists(k, k == '{short}')",
        lambda: f"(device.driver == '{driver}' && '{short}' in {attributes} && {test(field)})",
        lambda: f"{attributes}.?{short}.hasValue()",
    ]
    weights = (8, 5, 5, 2, 3, 3, 1, 1, 3, 1)
    if may_fail and chance.random() < 0.3:
        return test(field)
    return f"({chance.choices(idioms, weights)[0]()})"


def _test(chance: Random, values: Sequence[str | int]) -> Callable[[str], str]:
    """Return a function from an operand to a test of it."""
    value, other = chance.choice(values), chance.choice(values)
    if isinstance(value, int):
        sign = chance.choice(("==", "!=", ">=", "<=", "<"))
        return lambda operand: f"{operand} {sign} {value}"
    tests: list[Callable[[str], str]] = [
        lambda operand: f"{operand} == '{value}'",
        lambda operand: f"{operand} != '{value}'",
        lambda operand: f"'{value}' == {operand}",
        lambda operand: f"{operand} in ['{value}', '{other}']",
        lambda operand: f"!({operand} in ['{value}', '{other}'])",
        lambda operand: f"{operand}.startsWith('{str(value)[:-1]}')",
        lambda operand: f"{operand}.endsWith('{str(value)[-2:]}')",
        lambda operand: f"{operand} < '{value}'",
        lambda operand: f"{operand}.size() <= {len(str(value))}",
        lambda operand: f"{operand}.matches('^{str(value)[:-1]}')",
    ]
    return chance.choices(tests, (6, 8, 2, 3, 2, 2, 1, 1, 1, 1))[0]
