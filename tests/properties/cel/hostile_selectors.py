"""Selectors that try to be expensive: `python -m tests.properties.cel.hostile_selectors FIRST COUNT`.

Each one builds large texts, lists and maps in nested bindings, and passes them to random functions in nested
loops. Every function of the registry takes part, so the report names a new one that spends too few steps. The
program evaluates COUNT of them, from seed FIRST on, with 64 MiB of additional memory. It ends with 1 at the
first evaluation that takes more memory, or more CPU time than twelve additions in a Python loop for each step
that is allowed. The additions are timed beside the evaluation, because the speed of a core depends on the
machine and on what else runs there. The program prints those of the others that took the most time.
"""

import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from dradriver.cel import CompileError, EvaluationError, Selector, SelectorDevice
from dradriver.cel.compile.environment import FUNCTIONS
from dradriver.cel.compile.functions import Overload
from dradriver.cel.compile.types import CelType
from dradriver.cel.evaluate import steps
from dradriver.cel.evaluate.cost import MAX_LENGTH
from dradriver.model.quantity import Quantity
from dradriver.model.resource.device import Version

__all__ = ["CALLS", "DEVICE", "MEMORY", "direct_selector", "hostile_selector"]

ADDITIONS: Final = 12 * steps.LIMIT
_TIMED_ADDITIONS: Final = 50_000
MEMORY: Final = 64 * 2**20

DEVICE: Final = SelectorDevice(
    "d",
    {
        **{f"text{n}": "ab" * 32 for n in range(10)},
        **{f"list{n}": tuple(f"{i}-{'x' * 58}" for i in range(16)) for n in range(4)},
        "ints": tuple(range(64)),
        "version": Version("1.2.3-alpha.1.2.3.4.5.6"),
        "pattern": "(a|b)*a(a|b){12}",
    },
    {f"c{n}": Quantity.parse("10Gi") for n in range(8)},
)

_HIDDEN: Final = frozenset({"_?_:_", "or", "orValue"})
"""Functions that the compiler turns into jumps."""

CALLS: Final = [
    overload
    for name, overloads in FUNCTIONS.items()
    for overload in overloads
    if not name.startswith("@") and name not in _HIDDEN
]
_MACROS: Final = ("all", "exists", "exists_one", "map", "filter", "sortBy")

_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "int": ("0", "1", "-1", "2", "63", "1000", "9223372036854775807", "i", "t.size()"),
    "uint": ("0u", "1u", "18446744073709551615u"),
    "double": ("0.5", "1e308", "-0.0", "double('nan')", "1e-300"),
    "bool": ("true", "false"),
    "bytes": ("b'a'", "bytes(t)", "b'\\xff\\x00'"),
    "timestamp": ("timestamp(0)", "timestamp('2024-02-29T12:00:00.123456789+05:30')"),
    "google.protobuf.Timestamp": ("timestamp(0)", "timestamp('2024-02-29T12:00:00.123456789+05:30')"),
    "google.protobuf.Duration": ("duration('1h')", "duration('1s' + t)"),
    "kubernetes.Quantity": ("quantity('1e300')", "quantity('1e-300')", "device.capacity['d'].c0"),
    "kubernetes.Semver": ("device.attributes['d'].version", "semver('1.0.0-' + t)", "semver(v)"),
    "kubernetes.URL": ("url('https://a/' + t)", "url('/' + t)", "url('https://a?' + q)"),
    "kubernetes.NamedFormat": tuple(f"format.{name.removeprefix('format.')}()" for name in FUNCTIONS
                                    if name.startswith("format.") and name != "format.named"),
    "net.IP": ("ip('::1')", "ip('1.2.3.4')", "ip('ffff:1:2:3:4:5:6:7')"),
    "net.CIDR": ("cidr('::/64')", "cidr('10.0.0.0/8')"),
    "optional_type": ("optional.of(l)", "optional.of(t)", "optional.none()"),
    "string": (
        "t", "t", "u", "t + 'b'", "q", "v", "''", "'a'", "'%s'", "'%s%s%.9f%d'", "'UTC'", "'Europe/Berlin'",
        "'No/Such' + string(i)", "'::1'", "'10.0.0.0/8'", "'1.2.3'", "'10Gi'", "'-'", "t.substring(1)", "w",
        "'(a|b)*a(a|b){12}'", "'a{' + string(i % 1000) + '}'", "'[^b]{500}c|' + string(i)", "'(a*)*(a*)*$'",
        "'\\\\pL{' + string(i % 10) + '}'", "device.attributes['d'].text0", "'a?' + t", "'(.*)(.*)(.*)b'",
    ),
    "list": ("l", "l + l", "s", "d", "[t, t]", "[l, l]", "[]", "r", "m.map(k, k)",
             "device.attributes['d'].list0", "[optional.of(l)]", "[1, 1.0, 1u]", "[x]"),
    "map": ("m", "{t: 1}", "{t + '': 1}", "{1: l, 2: l}", "device.attributes", "device.attributes['d']", "{}"),
    "type": ("int", "type(l)"),
}  # fmt: skip


def hostile_selector(seed: int, only: Overload | None = None) -> str:
    """Return one selector, whose text depends only on the seed.

    Args:
        seed: equal seeds make equal selectors.
        only: the function that it is about, else any.
    """
    writer = _Writer(Random(seed), only)
    for _ in range(5):
        text = writer.selector()
        if len(text.encode()) <= MAX_LENGTH:
            return text
    return "true"


def direct_selector(overload: Overload) -> str:
    """Return one call of a function with a text of 2,048 characters or a list of 1,500 elements."""
    writer = _Writer(Random(0), overload)
    writer.plain = True
    body = f"[dyn({writer.call(0, overload)})].size() > 0 || true"
    for name, value in (
        *(("t", "t + t") for _ in range(10)),
        ("l", "lists.range(1500)"),
        ("m", "lists.range(300).transformMap(i, v, v)"),
    ):
        body = f"cel.bind({name}, {value}, {body})"
    return f"cel.bind(t, 'ab', {body})"


class _Writer:
    def __init__(self, random: Random, only: Overload | None) -> None:
        self.random = random
        self.only = only
        self.plain = False

    def selector(self) -> str:
        body = self.loops(self.random.choice((0, 0, 1, 1, 1, 2, 3)))
        for name, value in reversed(self.bindings()):
            body = f"cel.bind({name}, {value}, {body})"
        return body

    def bindings(self) -> list[tuple[str, str]]:
        """Bind the large values: texts `t`, `u`, `q`, `v`, `w`; lists `l`, `r`, `s`, `d`, `x`; a map `m`."""
        choice = self.random.choice
        texts = choice((1, 1, 3, 10, 16, 19))
        lists = choice((1, 1, 100, 1000, 20_000, 100_000))
        depth = choice((1, 3, 12, 40))
        unit = choice(("'a'", "'ab'", "'é'", "'\\U0001f600'", "'a.'", "'1'", "'%'", "'='", "' '"))
        bound = [("t", f"({unit})"), *(("t", "(t + t)") for _ in range(texts))]
        bound += [("u", choice(("t + 'x'", "t", "'a'", "'b' + t", "t.replace('a', 'bb')")))]
        bound += [("q", "t.replace('a', 'a=1&')"), ("v", "'1.0.0-' + t.replace('a', '1.1')")]
        bound += [("w", choice(("t.split('').join(',')", "t", "'%s'", "t.upperAscii()")))]
        bound += [("r", f"lists.range({lists})"), ("l", choice(("r", "[t, u]", "[1, 2, 3]", "r + r")))]
        bound += [("l", "l + l") for _ in range(choice((0, 0, 2, 10, 15)))]
        bound += [("s", choice(("t.split('')", "['a', t, u]", "lists.range(100).map(i, t + string(i))")))]
        bound += [("x", choice(("0", "l", "t", "[[1]]")))]
        bound += [("d", "[dyn(x), dyn(x)]"), *(("d", "[dyn(d), dyn(d)]") for _ in range(depth))]
        bound += [("m", choice(("{t: 1}", "lists.range(300).transformMap(i, v, v)", "{1: l}")))]
        return bound

    def loops(self, depth: int) -> str:
        if depth == 0:
            return f"({self.truth()})"
        count = self.random.choice((2, 10, 100, 1000, 5000, 20_000))
        source = self.random.choice((f"lists.range({count})", f"lists.range({count})", "l", "s", "m", "r"))
        inner = self.loops(depth - 1)
        macro = self.random.choice(_MACROS)
        if macro in {"all", "exists", "exists_one"}:
            step = {"all": f"{inner} || true", "exists": f"{inner} && false"}.get(macro, inner)
            return f"({source}.{macro}(i, {step}) || true)"
        step = self.value("A", 1) if macro == "map" else inner if macro == "filter" else self.value("int", 1)
        return f"({source}.{macro}(i, {step}).size() >= 0)"

    def truth(self) -> str:
        call = self.call(2, self.only or self.random.choice(CALLS))
        if self.random.random() < 0.3:
            call = f"cel.bind(y, {call}, {self.call(1, self.random.choice(CALLS))} == y)"
        return (
            f"[dyn({call})].size() > 0 || true"
            if self.random.random() < 0.7
            else f"dyn({call}) == {self.value('A', 1)}"
        )

    def value(self, kind: str, depth: int) -> str:
        if self.plain:
            return f"dyn({_VALUES.get(kind, ('l',))[0]})"
        if kind not in _VALUES:
            kind = self.random.choice(tuple(_VALUES))
        if depth > 0 and self.random.random() < 0.3:
            makers = [each for each in CALLS if each.result.name == kind]
            if makers:
                return self.call(depth - 1, self.random.choice(makers))
        value = self.random.choice(_VALUES[kind])
        return f"dyn({value})" if self.random.random() < 0.3 else value

    def call(self, depth: int, overload: Overload) -> str:
        args = [self.value(_kind(param), depth) for param in overload.params]
        name = overload.name
        if name in {"_[_]", "_[?_]"}:
            return f"{args[0]}[{'?' if '?' in name else ''}{args[1]}]"
        if name.startswith("_") and len(args) == 2:
            return f"({args[0]} {name.strip('_')} {args[1]})".replace(" in ", " in ")
        if name in {"!_", "-_"}:
            return f"{name[0]}({args[0]})"
        if overload.is_method:
            return (
                f"{args[0]}.{name}({', '.join(args[1:])})"
                if args[0][0].isalpha()
                else (f"({args[0]}).{name}({', '.join(args[1:])})")
            )
        return f"{name}({', '.join(args)})"


def _kind(param: CelType) -> str:
    return "A" if param.is_parameter or param.is_dyn else param.name


def measure(selector: Selector, repeats: int = 1) -> int:
    """Return how many additions take as much CPU time as one evaluation on the hostile device.

    The shortest additions and the shortest evaluation count, because other programs delay both.
    """
    additions, evaluations = [_time_additions()], []
    for _ in range(repeats):
        began = time.process_time()
        with suppress(EvaluationError):
            selector.evaluate(DEVICE)
        evaluations.append(time.process_time() - began)
        additions.append(_time_additions())
    return round(_TIMED_ADDITIONS * min(evaluations) / min(additions))


def _time_additions() -> float:
    began = time.process_time()
    total = 0
    for number in range(_TIMED_ADDITIONS):
        total += number
    return time.process_time() - began


def main(first: int, count: int) -> int:
    """Evaluate selectors; return 1 if one of them breaks the law."""
    Selector("true").evaluate(DEVICE)
    grown = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (grown + MEMORY, grown + MEMORY))
    longest: list[tuple[int, int, str]] = []
    for seed in range(first, first + count):
        text = hostile_selector(seed)
        try:
            selector = Selector(text)
        except CompileError:
            continue
        try:
            additions = measure(selector)
            if additions > ADDITIONS:
                additions = measure(selector, repeats=4)
        except MemoryError:
            print(f"seed {seed}: more than {MEMORY} bytes\n{text}")
            return 1
        longest = sorted([*longest, (additions, seed, text)], reverse=True)[:5]
        if additions > ADDITIONS:
            print(f"seed {seed}: the CPU time of {additions} additions\n{text}")
            return 1
    for additions, seed, text in longest:
        print(f"seed {seed}: the CPU time of {additions} additions: {text[-300:]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
