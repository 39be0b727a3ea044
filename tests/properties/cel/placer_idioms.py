"""Random selectors in the forms that authors use to test attributes: `has`, `in`, `.?`, loops and bindings."""

from random import Random
from typing import Final

__all__ = ["conjunction", "idiomatic_expression"]

DOMAINS: Final = ("dra.example.com", "other.org", "nosuch.io")
NAMES: Final = ("model", "count", "flag", "ver", "names", "nosuch")
_VARIABLES: Final = ("a", "b", "device")
_LITERALS: Final = ('"a100"', '"h100"', '""', '"model"', "1", "4", "true", "false", '"1.2.3"')


def idiomatic_expression(random: Random, depth: int = 3) -> str:
    """Return a selector of about `depth` levels. Most of them compile."""
    return _Writer(random).truth(depth, {})


def conjunction(random: Random) -> str:
    """Return tests of attributes joined by `&&`. Most of them are plain comparisons."""
    writer = _Writer(random)
    parts = [
        writer.comparison() if random.random() < 0.8 else writer.truth(1, {})
        for _ in range(random.randint(1, 4))
    ]
    return " && ".join(f"({part})" if random.random() < 0.2 else part for part in parts)


class _Writer:
    """Writes expressions. A scope has the kind of each variable: device, domains, names, value or text."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def one(self, *texts: str) -> str:
        return self.random.choice(texts)

    def truth(self, depth: int, scope: dict[str, str]) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.3:
            return self.test(scope)
        d = depth - 1
        if choice < 0.6:
            operator = self.one(" && ", " && ", " || ")
            return f"({operator.join(self.truth(d, scope) for _ in range(self.random.randint(2, 3)))})"
        if choice < 0.65:
            return f"!({self.truth(d, scope)})"
        if choice < 0.7:
            return f"({self.truth(d, scope)} ? {self.truth(d, scope)} : {self.truth(d, scope)})"
        return self.binding(d, scope) if choice < 0.85 else self.loop(d, scope)

    def binding(self, depth: int, scope: dict[str, str]) -> str:
        name = self.one(*_VARIABLES)
        kind = self.one("device", "domains", "names", "value", "text")
        value = getattr(self, kind)(scope)
        return f"cel.bind({name}, {value}, {self.truth(depth, {**scope, name: kind})})"

    def loop(self, depth: int, scope: dict[str, str]) -> str:
        macro = self.one("exists", "all", "exists_one")
        key, value = self.random.sample(_VARIABLES, 2)
        domains = self.random.random() < 0.4
        source = self.domains(scope) if domains else self.names(scope)
        if self.random.random() < 0.5:
            return f"{source}.{macro}({key}, {self.truth(depth, {**scope, key: 'text'})})"
        inner = {**scope, key: "text", value: "names" if domains else "value"}
        return f"{source}.{self.one('exists', 'all')}({key}, {value}, {self.truth(depth, inner)})"

    # --- parts of the device --------------------------------------------------------------

    def variable(self, kind: str, scope: dict[str, str]) -> str | None:
        names = [name for name, known in scope.items() if known == kind]
        return self.one(*names) if names and self.random.random() < 0.7 else None

    def device(self, scope: dict[str, str]) -> str:
        return self.variable("device", scope) or (".device" if "device" in scope else "device")

    def domains(self, scope: dict[str, str]) -> str:
        return (
            self.variable("domains", scope)
            or f"{self.device(scope)}.{self.one('attributes', '?attributes.value()')}"
        )

    def names(self, scope: dict[str, str]) -> str:
        domain = self.one(*(f'"{name}"' for name in DOMAINS[:2]), self.text(scope))
        form = self.one("[{}]", "[{}]", "[{}]", "[?{}].value()", "[?{}].orValue({{}})")
        return self.variable("names", scope) or self.domains(scope) + form.format(domain)

    def value(self, scope: dict[str, str]) -> str:
        name = self.one(*NAMES)
        form = self.one(
            ".{}", ".{}", '["{}"]', ".?{}.orValue(dyn(1))", '[?"{}"].orValue(dyn(""))', ".?{}.value()"
        )
        anything = f"[{self.text(scope)}]" if self.random.random() < 0.1 else form.format(name)
        return self.variable("value", scope) or self.names(scope) + anything

    def text(self, scope: dict[str, str]) -> str:
        return self.variable("text", scope) or self.one(
            *(f'"{name}"' for name in (*NAMES, *DOMAINS)), f"{self.device(scope)}.driver"
        )

    # --- tests ----------------------------------------------------------------------------

    def comparison(self) -> str:
        """Return a comparison of one attribute with literals."""
        form = self.one(".{}", ".{}", '["{}"]', '.?{}.orValue("a100")', ".?{}.orValue(4)")
        value = f'device.attributes["{self.one(*DOMAINS[:2])}"]' + form.format(self.one(*NAMES[:-1]))
        literal = self.one(*_LITERALS)
        return self.one(
            f"{value} {self.one('==', '!=')} {literal}",
            f"{literal} {self.one('==', '!=')} {value}",
            f'{self.one("", "!")}({value} in ["a100", "h100"])',
            f"{value} {self.one('<', '>=')} {literal}",
            f'{self.one("", "!")}{value}.{self.one("startsWith", "endsWith", "contains")}("a")',
            f"{self.one('', '!')}{value}",
        )

    def test(self, scope: dict[str, str]) -> str:
        names = self.names(scope)
        value = self.value(scope)
        return self.one(
            f"{value} {self.one('==', '!=')} {self.one(*_LITERALS)}",
            f"{value} {self.one('==', '!=')} {self.one(*_LITERALS)}",
            f"{self.one(*_LITERALS)} {self.one('==', '!=')} {value}",
            f'{value} in ["a100", "h100"]',
            f"{value} in [1, 4]",
            f"{value} {self.one('<', '>=')} {self.one('1', '4')}",
            f"{self.one('2', '4')} > {value}",
            f'{value}.{self.one("startsWith", "endsWith", "contains")}("a")',
            f'{value}.includes("a")',
            value,
            f"has({names}.{self.one(*NAMES)})",
            f"{self.text(scope)} in {names}",
            f"{self.text(scope)} in {self.domains(scope)}",
            f"{names}.?{self.one(*NAMES)}.hasValue()",
            f"{names}[?{self.text(scope)}].hasValue()",
            f"{self.domains(scope)}[?{self.text(scope)}].?{self.one(*NAMES)}.hasValue()",
            f"size({names}) > {self.one('2', '4')}",
            f"{names} == {names}",
            f"{self.text(scope)} {self.one('==', '!=')} {self.text(scope)}",
            f'{self.device(scope)}.capacity["{DOMAINS[0]}"].memory.isGreaterThan(quantity("5Gi"))',
            f'has({self.device(scope)}.capacity["{DOMAINS[0]}"].memory)',
            f"{self.device(scope)}.allowMultipleAllocations",
        )
