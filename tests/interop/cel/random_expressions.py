# ruff: noqa: E501 - one production of the grammar a line reads best
"""Random selectors and devices: most are well typed."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

__all__ = ["random_device", "random_expression"]

JsonDevice = dict[str, Any]

DOMAINS: Final = ("dra.example.com", "other.org", "nosuch.io")
ATTRIBUTES: Final = ("model", "count", "flag", "ver", "names", "ints", "vers", "flags", "nosuch")


def random_device(random: Random) -> JsonDevice:
    """Return a device with some of the attributes that expressions use, each sometimes of another kind."""
    attributes: dict[str, Any] = {}
    for name in ATTRIBUTES[:-1]:
        if random.random() < 0.8:
            prefix = random.choice(("", "", "", "other.org/"))
            attributes[prefix + name] = (
                random.choice(list(_VALUES.values()))(random)
                if random.random() < 0.15
                else _VALUES[name](random)
            )
    capacity = {
        random.choice(("", "other.org/")) + name: random.choice(
            ("10Gi", "500m", "4", "1k", "1500m", "0", "128974848", "12e6")
        )
        for name in ("memory", "slots")
        if random.random() < 0.8
    }
    device: JsonDevice = {
        "driver": random.choice(("dra.example.com", "dra.example.com", "other.org")),
        "attributes": attributes,
        "capacity": capacity,
    }
    if random.random() < 0.5:
        device["allowMultipleAllocations"] = random.random() < 0.5
    return device


_VALUES: Final[Mapping[str, Callable[[Random], dict[str, Any]]]] = {
    "model": lambda r: {"string": r.choice(("a100", "h100", "", "é☃", "a.b-c", "1.2.3"))},
    "count": lambda r: {"int": r.choice((0, 1, 4, -3, 2**62))},
    "flag": lambda r: {"bool": r.random() < 0.5},
    "ver": lambda r: {"version": r.choice(("1.2.3", "1.2.3-alpha.1", "2.0.0+build", "0.0.1"))},
    "names": lambda r: {"strings": r.choice((["a", "b"], ["a100"], ["x", "y", "z", "x"]))},
    "ints": lambda r: {"ints": r.choice(([1, 2, 3], [4], [3, 1, 2, 2]))},
    "vers": lambda r: {"versions": r.choice((["1.0.0", "2.0.0"], ["1.2.3"]))},
    "flags": lambda r: {"bools": r.choice(([True], [True, False]))},
}


def random_expression(random: Random, depth: int = 4) -> str:
    """Return a selector of about `depth` levels at most."""
    return _Writer(random).truth(depth)


class _Writer:
    """Write expressions of a wanted type, and sometimes of another one."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.variables: list[tuple[str, str]] = []

    def pick(self, *choices: Callable[[], str]) -> str:
        return self.random.choice(choices)()

    def text(self, *choices: str) -> str:
        return self.random.choice(choices)

    def domain(self) -> str:
        return self.text('"dra.example.com"', '"dra.example.com"', '"other.org"', '"nosuch.io"')

    def variable(self, kind: str) -> str | None:
        names = [name for name, known in self.variables if known in {kind, "dyn"}]
        return self.random.choice(names) if names and self.random.random() < 0.5 else None

    def attribute(self, *names: str) -> str:
        name = self.text(*(names if self.random.random() < 0.85 else ATTRIBUTES))
        domain = self.domain()
        fallback = self.text("dyn(1)", "dyn(true)", "dyn('a')")
        return self.text(
            f"device.attributes[{domain}].{name}",
            f"device.attributes[{domain}].{name}",
            f'device.attributes[{domain}]["{name}"]',
            f"device.attributes[{domain}].?{name}.orValue({fallback})",
        )

    # --- by type --------------------------------------------------------------------------

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(
                lambda: self.text("true", "false"),
                lambda: self.attribute("flag"),
                lambda: f"has(device.attributes[{self.domain()}].{self.text(*ATTRIBUTES)})",
                lambda: "device.allowMultipleAllocations",
                lambda: self.variable("bool") or "true",
            )
        d = depth - 1
        if self.random.random() < 0.03:
            return self.anything(d)
        return self.pick(
            lambda: f"({self.truth(d)} && {self.truth(d)})",
            lambda: f"({self.truth(d)} || {self.truth(d)})",
            lambda: f"!{self.truth(d)}" if self.random.random() < 0.5 else f"!({self.truth(d)})",
            lambda: f"({self.truth(d)} ? {self.truth(d)} : {self.truth(d)})",
            lambda: f"{self.whole(d)} {self.text('<', '<=', '>', '>=', '==', '!=')} {self.whole(d)}",
            lambda: f"{self.string(d)} {self.text('==', '!=', '<', '>=')} {self.string(d)}",
            lambda: f"{self.anything(d)} {self.text('==', '!=')} {self.anything(d)}",
            lambda: f"dyn({self.anything(d)}) {self.text('==', '!=', '<', '>')} {self.anything(d)}",
            lambda: f"{self.string(d)}.{self.text('startsWith', 'endsWith', 'contains')}({self.string(d)})",
            lambda: f"{self.string(d)}.matches({self.pattern()})",
            lambda: f"{self.quantity(d)}.{self.text('isGreaterThan', 'isLessThan')}({self.quantity(d)})",
            lambda: f"{self.quantity(d)} {self.text('==', '!=')} {self.quantity(d)}",
            lambda: f"{self.quantity(d)}.isInteger()",
            lambda: f"{self.semver(d)}.{self.text('isGreaterThan', 'isLessThan')}({self.semver(d)})",
            lambda: f"{self.semver(d)} {self.text('==', '!=')} {self.text(self.semver(d), self.anything(d))}",
            lambda: f"{self.string(d)} in {self.list_of_strings(d)}",
            lambda: f"{self.whole(d)} in {self.list_of_ints(d)}",
            lambda: f"{self.string(d)} in {self.mapping(d)}",
            lambda: self.loop(d),
            lambda: self.loop(d),
            lambda: f"{self.optional(d)}.hasValue()",
            lambda: (
                f"{self.text(self.attribute('names', 'ints', 'model', 'vers'), self.list_of_ints(d))}.includes({self.anything(d)})"
            ),
            lambda: (
                f"sets.{self.text('contains', 'intersects', 'equivalent')}({self.list_of_ints(d)}, {self.list_of_ints(d)})"
            ),
            lambda: self.bound(d),
            lambda: f"is{self.text('Quantity', 'Semver', 'URL', 'IP', 'CIDR')}({self.string(d)})",
            lambda: f"{self.list_of_ints(d)}.isSorted()",
            lambda: (
                f"{self.double(d)} {self.text('<', '>', '==', '<=')} {self.text(self.double(d), 'double(' + self.whole(d) + ')')}"
            ),
            lambda: (
                f"type({self.anything(d)}) == {self.text('int', 'string', 'bool', 'list', 'map', 'double', 'type', 'null_type')}"
            ),
            lambda: f"{self.time(d)} {self.text('<', '>', '==')} {self.time(d)}",
            lambda: f"{self.duration(d)} {self.text('<', '>=', '==')} {self.duration(d)}",
            lambda: f"bool({self.text(chr(34) + 'true' + chr(34), chr(34) + 'F' + chr(34), self.string(d))})",
        )

    def whole(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(
                lambda: self.text(
                    "0", "1", "2", "-1", "4", "10", "9223372036854775807", "-9223372036854775808", "0x1F"
                ),
                lambda: self.attribute("count"),
                lambda: self.variable("int") or "3",
            )
        d = depth - 1
        return self.pick(
            lambda: self.whole(0),
            lambda: f"({self.whole(d)} {self.text('+', '-', '*', '/', '%')} {self.whole(d)})",
            lambda: f"-({self.whole(d)})",
            lambda: f"size({self.text(self.string(d), self.list_of_ints(d), self.mapping(d))})",
            lambda: (
                f"{self.text(self.string(d), self.attribute('names', 'model'), self.list_of_strings(d))}.size()"
            ),
            lambda: f"{self.quantity(d)}.asInteger()",
            lambda: f"sign({self.quantity(d)})",
            lambda: f"{self.quantity(d)}.compareTo({self.quantity(d)})",
            lambda: f"{self.semver(d)}.{self.text('major', 'minor', 'patch')}()",
            lambda: f"{self.semver(d)}.compareTo({self.semver(d)})",
            lambda: f"{self.list_of_ints(d)}.{self.text('sum', 'min', 'max')}()",
            lambda: f"{self.list_of_ints(d)}.{self.text('indexOf', 'lastIndexOf')}({self.whole(d)})",
            lambda: f"{self.list_of_ints(d)}[{self.whole(0)}]",
            lambda: f"{self.string(d)}.{self.text('indexOf', 'lastIndexOf')}({self.string(d)})",
            lambda: (
                f"{self.string(d)}.{self.text('indexOf', 'lastIndexOf')}({self.string(0)}, {self.whole(0)})"
            ),
            lambda: f"int({self.text(self.string(d), self.double(d), self.time(d), self.whole(d))})",
            lambda: f"{self.optional(d)}.orValue({self.whole(d)})",
            lambda: f"({self.truth(d)} ? {self.whole(d)} : {self.whole(d)})",
            lambda: (
                f"{self.time(d)}.{self.text('getFullYear', 'getMonth', 'getDate', 'getDayOfWeek', 'getHours', 'getDayOfYear', 'getMilliseconds')}({self.text('', '', chr(34) + '-08:30' + chr(34))})"
            ),
            lambda: (
                f"{self.duration(d)}.{self.text('getHours', 'getMinutes', 'getSeconds', 'getMilliseconds')}()"
            ),
        )

    def double(self, depth: int) -> str:
        if depth <= 0:
            return self.text("0.0", "1.5", "-2.25", "1e10", ".5", "1e-7", "1234567.0", "3.0")
        d = depth - 1
        return self.pick(
            lambda: self.double(0),
            lambda: f"({self.double(d)} {self.text('+', '-', '*', '/')} {self.double(d)})",
            lambda: f"double({self.text(self.whole(d), self.string(d))})",
            lambda: f"{self.quantity(d)}.asApproximateFloat()",
        )

    def string(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(
                lambda: self.text(
                    '"a100"',
                    '"a"',
                    '""',
                    "'dra.example.com'",
                    '"1.2.3"',
                    '"10Gi"',
                    '"é☃"',
                    '"x,y"',
                    '"A b"',
                    r'r"\d"',
                    r'"\u0041\n"',
                    '"3"',
                ),
                lambda: "device.driver",
                lambda: self.attribute("model"),
                lambda: self.variable("string") or '"b"',
            )
        d = depth - 1
        return self.pick(
            lambda: self.string(0),
            lambda: f"({self.string(d)} + {self.string(d)})",
            lambda: f"{self.string(d)}.{self.text('lowerAscii', 'upperAscii', 'trim')}()",
            lambda: f"{self.string(d)}.substring({self.whole(0)})",
            lambda: f"{self.string(d)}.substring({self.whole(0)}, {self.whole(0)})",
            lambda: (
                f"{self.string(d)}.replace({self.string(0)}, {self.string(0)}{self.text('', ', 1', ', -1', ', 0')})"
            ),
            lambda: f"{self.string(d)}.charAt({self.whole(0)})",
            lambda: f"{self.string(d)}.find({self.pattern()})",
            lambda: f"{self.list_of_strings(d)}.join({self.text('', self.string(0))})",
            lambda: (
                f"string({self.text(self.whole(d), self.double(d), self.truth(d), self.time(d), self.duration(d))})"
            ),
            lambda: f'"%s:%d".format([{self.anything(d)}, {self.whole(d)}])',
            lambda: f"{self.list_of_strings(d)}[{self.whole(0)}]",
            lambda: f"strings.quote({self.string(d)})",
        )

    def pattern(self) -> str:
        return self.text(
            '"^a"',
            '"[0-9]+"',
            '"a.*b"',
            '"("',
            '"^dra\\\\."',
            '"\\\\d{2,}"',
            '"(?i)A"',
            '""',
            '"é"',
            "device.driver",
            '"a{2000}"',
            '"(?P<n>a)"',
        )

    def quantity(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(
                lambda: self.text(
                    'quantity("10Gi")',
                    'quantity("500m")',
                    'quantity("4")',
                    'quantity("1.5")',
                    'quantity("-1k")',
                    'quantity("x")',
                    'quantity("1000m")',
                    'quantity("12e6")',
                ),
                lambda: f"device.capacity[{self.domain()}].{self.text('memory', 'slots', 'nosuch')}",
                lambda: f'device.capacity[{self.domain()}]["{self.text("memory", "slots")}"]',
            )
        d = depth - 1
        return self.pick(
            lambda: self.quantity(0),
            lambda: (
                f"{self.quantity(d)}.{self.text('add', 'sub')}({self.text(self.quantity(d), self.whole(d))})"
            ),
            lambda: f"quantity({self.string(d)})",
        )

    def semver(self, depth: int) -> str:
        return self.pick(
            lambda: self.attribute("ver"),
            lambda: self.text(
                'semver("1.2.3")',
                'semver("1.2.3-alpha.2")',
                'semver("v1", true)',
                'semver("1.0")',
                'semver("2.0.0+x")',
                'semver("01.2", true)',
            ),
            lambda: f"semver({self.string(max(0, depth - 1))}{self.text('', ', true')})",
        )

    def list_of_ints(self, depth: int) -> str:
        d = max(0, depth - 1)
        return self.pick(
            lambda: f"[{', '.join(self.whole(0) for _ in range(self.random.randrange(4)))}]",
            lambda: (
                f"[{', '.join(self.text('0', '1', '2', '3', '5') for _ in range(self.random.randrange(5)))}]"
            ),
            lambda: self.attribute("ints"),
            lambda: f"({self.list_of_ints(d)} + {self.list_of_ints(d)})" if depth > 0 else "[1, 2]",
            lambda: (
                f"{self.list_of_ints(d)}.{self.text('sort', 'distinct', 'reverse')}()"
                if depth > 0
                else "[3, 1]"
            ),
            lambda: f"lists.range({self.text('0', '3', '5', '-1')})",
            lambda: f"{self.list_of_ints(d)}.slice({self.whole(0)}, {self.whole(0)})" if depth > 0 else "[1]",
            lambda: self.mapping_loop(d) if depth > 0 else "[2]",
            lambda: f"[?{self.optional(d)}, 1]" if depth > 0 else "[7]",
        )

    def list_of_strings(self, depth: int) -> str:
        d = max(0, depth - 1)
        return self.pick(
            lambda: self.text('["a", "b"]', '["a100", "h100"]', "[]", '["x"]'),
            lambda: self.attribute("names"),
            lambda: f"{self.string(d)}.split({self.string(0)}{self.text('', ', 1', ', 2', ', -1')})",
            lambda: f"{self.string(d)}.findAll({self.pattern()}{self.text('', ', 1')})",
            lambda: f"[{self.string(d)}, {self.string(d)}]",
            lambda: f"device.attributes[{self.domain()}].map(k, k).sort()",
        )

    def mapping(self, depth: int) -> str:
        d = max(0, depth - 1)
        return self.pick(
            lambda: self.text("device.attributes", "device.capacity"),
            lambda: f"device.attributes[{self.domain()}]",
            lambda: f"device.capacity[{self.domain()}]",
            lambda: f'{{"a": {self.whole(d)}, {self.string(0)}: {self.whole(0)}}}',
            lambda: "{1: true, 2: false}",
        )

    def optional(self, depth: int) -> str:
        d = max(0, depth - 1)
        return self.pick(
            lambda: f"device.attributes[{self.domain()}].?{self.text(*ATTRIBUTES)}",
            lambda: f"device.attributes[?{self.domain()}].{self.text(*ATTRIBUTES)}",
            lambda: f"device.attributes[{self.domain()}][?{self.string(0)}]",
            lambda: f"{self.list_of_ints(d)}[?{self.whole(0)}]",
            lambda: self.text("optional.of(1)", "optional.none()", "optional.ofNonZeroValue(0)"),
            lambda: f"optional.of({self.anything(d)})",
            lambda: f"{self.optional(d)}.or({self.optional(d)})" if depth > 0 else "optional.of(2)",
            lambda: (
                f"{self.optional(d)}.optMap(o, {self.with_variable('o', 'dyn', lambda: self.whole(d))})"
                if depth > 0
                else "optional.of(2)"
            ),
            lambda: f"{self.list_of_ints(d)}.{self.text('first', 'last')}()",
        )

    def time(self, depth: int) -> str:
        return self.pick(
            lambda: self.text(
                'timestamp("2020-02-29T23:59:59.5Z")',
                'timestamp("1970-01-01T00:00:00+02:00")',
                "timestamp(0)",
                'timestamp("2030-12-31T10:00:00Z")',
            ),
            lambda: (
                f"({self.time(depth - 1)} {self.text('+', '-')} {self.duration(depth - 1)})"
                if depth > 0
                else "timestamp(1)"
            ),
        )

    def duration(self, depth: int) -> str:
        return self.pick(
            lambda: self.text(
                'duration("1h30m")',
                'duration("-1.5s")',
                'duration("10ms")',
                'duration("0")',
                'duration("100h")',
            ),
            lambda: (
                f"({self.duration(depth - 1)} {self.text('+', '-')} {self.duration(depth - 1)})"
                if depth > 0
                else 'duration("1s")'
            ),
        )

    def anything(self, depth: int) -> str:
        return self.pick(
            lambda: self.whole(depth), lambda: self.string(depth), lambda: self.truth(depth), lambda: self.quantity(depth),
            lambda: self.semver(depth), lambda: self.list_of_ints(depth), lambda: self.attribute(*ATTRIBUTES),
            lambda: self.double(depth), lambda: self.mapping(depth), lambda: self.text("null", "1u", 'b"x"', "[]", "{}", "device"),
            lambda: self.list_of_strings(depth), lambda: self.optional(depth),
        )  # fmt: skip

    # --- variables ------------------------------------------------------------------------

    def with_variable(self, name: str, kind: str, body: Callable[[], str]) -> str:
        self.variables.append((name, kind))
        text = body()
        self.variables.pop()
        return text

    def loop(self, depth: int) -> str:
        name = f"x{len(self.variables)}"
        source, kind = self.random.choice((
            (self.list_of_ints(depth), "int"), (self.list_of_strings(depth), "string"), (self.attribute("names", "ints"), "dyn"),
            (self.mapping(depth), "string"),
        ))  # fmt: skip
        macro = self.text("all", "exists", "exists_one", "existsOne")
        if self.random.random() < 0.15:
            body = self.with_variable(name, "dyn", lambda: self.truth(depth))
            return f"{source}.{macro}({name}, {name}v, {body})"
        body = self.with_variable(name, kind, lambda: self.truth(depth))
        return f"{source}.{macro}({name}, {body})"

    def mapping_loop(self, depth: int) -> str:
        name = f"x{len(self.variables)}"
        source = self.list_of_ints(depth)
        return self.pick(
            lambda: f"{source}.map({name}, {self.with_variable(name, 'int', lambda: self.whole(depth))})",
            lambda: f"{source}.filter({name}, {self.with_variable(name, 'int', lambda: self.truth(depth))})",
            lambda: (
                f"{source}.map({name}, {self.with_variable(name, 'int', lambda: self.truth(depth))}, {name})"
            ),
            lambda: f"{source}.sortBy({name}, {self.with_variable(name, 'int', lambda: self.whole(depth))})",
            lambda: (
                f"{source}.transformList({name}, {name}v, {self.with_variable(name, 'int', lambda: self.whole(depth))})"
            ),
        )

    def bound(self, depth: int) -> str:
        name = f"b{len(self.variables)}"
        kind, value = self.random.choice(
            (("int", self.whole(depth)), ("string", self.string(depth)), ("dyn", self.attribute(*ATTRIBUTES)))
        )
        return f"cel.bind({name}, {value}, {self.with_variable(name, kind, lambda: self.truth(depth))})"
