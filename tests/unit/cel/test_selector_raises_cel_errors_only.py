"""Every expression has a verdict or one of the two errors as its result."""

import pytest

from dradriver.cel import CelError, Selector
from tests.unit.cel.devices import GPU, MINE

DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "expression",
    [
        f"{DIGITS} > 0",
        f"{DIGITS}u > 0u",
        f"0x{'f' * 5000} > 0",
        f"int({MINE}.model + '{DIGITS}') > 0",
        f"int('{DIGITS}') > 0",
        f"uint('{DIGITS}') > 0u",
        f"double('{DIGITS}') > 0.0",
        f"quantity('{DIGITS}').isInteger()",
        f"quantity('1e{DIGITS}').isInteger()",
        "quantity('1e9999').compareTo(quantity('1e9998')) == 1",
        "quantity('1e999999').isInteger()",
        "quantity('-20E').isLessThan(quantity('-19E'))",
        f"semver('{DIGITS}.0.0').major() > 0",
        f"semver('1.0.0-{DIGITS}').major() > 0",
        f"isCIDR('10.0.0.0/{DIGITS}')",
        f"duration('{DIGITS}s') > duration('1s')",
        f"duration(dyn('{DIGITS}s')) > duration('1s')",
        f"'%.{DIGITS}f'.format([1.5]) == ''",
        "timestamp('0001-01-01T00:00:00Z').getFullYear('-08:00') == 0",
        "timestamp('9999-12-31T23:59:59Z').getHours('+14:00') == 0",
        "timestamp(9223372036854775807) > timestamp(0)",
        "timestamp(0).getHours('../../etc/passwd') == 0",
        "timestamp(0).getHours('/etc/passwd') == 0",
        f"timestamp(0).getHours('{'x' * 5000}') == 0",
        "(true ? null : quantity('1')).isInteger()",
        "(false ? quantity('1') : null).isGreaterThan(quantity('1'))",
        "(true ? null : timestamp(0)).getHours() == 0",
        "'x'.replace('', 'y'.replace('', 'z')).size() == 3",
        "{dyn([1]): 1}.size() == 1",
        "dyn(1)['a'] == 1 || dyn('a')[0] == 1 || dyn(null).x == 1",
        "type(device)(1) == 1",
        "\x00 == 1",
        "'\ud800' == ''",
        "device" * 1000,
        "",
        "   // nothing",
    ],
    ids=lambda expression: ascii(expression[:40]),
)
def test_a_hostile_expression_gets_a_verdict_or_an_error(expression: str) -> None:
    try:
        verdict = Selector(expression).matches(GPU)
    except CelError as error:
        verdict = not str(error)
    assert verdict in {True, False}
