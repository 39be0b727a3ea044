"""Clusters and pods that try to break the allocator.

`python -m tests.properties.allocator.hostile_inputs FIRST COUNT` passes each input to the allocator as a file
would be. The result must be an allocation or an error of this package, within two seconds of CPU time and
512 MiB. The first input that breaks this rule is printed with its number, and the program ends.
"""

import resource
import signal
import sys
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, Final

from dradriver.errors import DraError
from tests.interop.allocator.agreement import Json, our_answer
from tests.interop.allocator.random_worlds import random_world

SECONDS: Final = 2
MEMORY: Final = 512 * 2**20
_LARGEST_OBJECT: Final = 1_500_000

_EXTREMES: Final[tuple[Any, ...]] = (
    0, -1, 1, 32, 33, 2**31, 2**63 - 1, 2**63, -(2**63), 2**200, 1.5, True, None, "", "x" * 10_240, "0", "-1",
    "9223372036854775807", "9223372036854775808", "9223372036854775807Ei", "1e400", "1e-400", "-1n", "0.1n",
    "1n", "1e", "NaN", "\x00", "ä", [], {}, [[[]]], {"a": {}}, "r0", "r0/s0", "/", "a/b/c",
)  # fmt: skip

_SELECTORS: Final = (
    "true" + " || true" * 1200,
    "(" * 5_000 + "true" + ")" * 5_000,
    "!" * 10_001 + "true",
    "[" * 4_000 + "1" + "]" * 4_000 + " == 1",
    "[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, [1,2,3,4].all(d, true))))",
    "device.attributes[device.driver].model.matches('(a*)*(a*)*(a*)*b')",
    "'a'.matches('(((((a{1,99}){1,99}){1,99}){1,99})')",
    "device.attributes['\\u0000'].x",
    "device" + ".attributes" * 900,
    "'" + "x" * 10_200 + "' == 'y'",
    "1/0 == 1",
    "9223372036854775807 + 1 == 0",
    "size('" + "ab" * 5_000 + "') > 0",
)


def hostile_world(seed: int) -> Json:
    """Return one input. Equal seeds make equal inputs."""
    chance = Random(seed)
    world = random_world(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(_ATTACKS)(world, chance)
    return world


def _anything_anywhere(world: Json, chance: Random) -> None:
    """Replace a value at a random place by an extreme one."""
    part: Any = world[chance.choice(("slices", "classes", "held", "claims", "claims"))]
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not keys:
            return
        key = chance.choice(keys)
        if not isinstance(part[key], dict | list) or not part[key] or chance.random() < 0.1:
            part[key] = chance.choice(_EXTREMES)
            return
        part = part[key]


def _requests(world: Json) -> list[Json]:
    """Return every request and alternative."""
    requests = [r for claim in world["claims"] for r in claim["spec"]["devices"]["requests"]]
    return [request for r in requests for request in (r.get("firstAvailable") or [r.get("exactly", {})])]


def _huge_selector(world: Json, chance: Random) -> None:
    for request in _requests(world):
        request["selectors"] = [{"cel": {"expression": chance.choice(_SELECTORS)}} for _ in range(32)]


def _huge_counts(world: Json, chance: Random) -> None:
    for request in _requests(world):
        request["count"] = chance.choice((16, 31, 32, 33, 10**6, 2**63 - 1))


def _many_claims(world: Json, chance: Random) -> None:
    one = world["claims"][0]
    world["claims"] = [
        {**one, "metadata": {**one["metadata"], "name": f"c{n}", "uid": f"c{n}"}}
        for n in range(chance.choice((8, 40)))
    ]


def _many_requests(world: Json, chance: Random) -> None:
    devices = world["claims"][0]["spec"]["devices"]
    one = devices["requests"][0]
    devices["requests"] = [{**one, "name": f"r{n}"} for n in range(32)]


def _tangled_constraints(world: Json, chance: Random) -> None:
    """Bind every request to its neighbors, in a ring, by every attribute."""
    for claim in world["claims"]:
        devices = claim["spec"]["devices"]
        names = [request["name"] for request in devices["requests"]]
        attributes = ("parent", "model", "numa", "size", "missing")
        devices["constraints"] = [
            {
                "requests": [names[n % len(names)], names[(n + 1) % len(names)]],
                chance.choice(
                    ("matchAttribute", "distinctAttribute")
                ): f"gpu.example.com/{chance.choice(attributes)}",
            }
            for n in range(32)
        ]


def _full_slices(world: Json, chance: Random) -> None:
    """Fill slices with the maximum number of devices, most of them different."""
    for each in world["slices"]:
        spec = each["spec"]
        if spec.get("devices"):
            one = spec["devices"][0]
            spec["devices"] = [
                {**one, "name": f"d{n}", "attributes": {"size": {"int": n}, "parent": {"string": f"p{n % 7}"}}}
                for n in range(128)
            ]


def _shares_that_hardly_fit(world: Json, chance: Random) -> None:
    """Request shares that form a bin packing problem."""
    for each in world["slices"]:
        spec = each["spec"]
        if spec.get("devices"):
            spec["devices"] = [
                {
                    "name": f"d{n}",
                    "allowMultipleAllocations": True,
                    "capacity": {"memory": {"value": str(97 + n)}},
                }
                for n in range(12)
            ]
    requests = [
        {"name": f"r{n}", "exactly": {"deviceClassName": "any", "count": 1, "allocationMode": "ExactCount",
         "capacity": {"requests": {"memory": str(chance.randint(23, 41))}}}}
        for n in range(32)
    ]  # fmt: skip
    world["claims"][0]["spec"]["devices"] = {"requests": requests}


def _counters_that_hardly_fit(world: Json, chance: Random) -> None:
    sets = [f"s{n}" for n in range(8)]
    shared = [{"name": name, "counters": {"c": {"value": "100"}}} for name in sets]
    devices = [
        {"name": f"d{n}", "consumesCounters": [
            {"counterSet": name, "counters": {"c": {"value": str(chance.randint(20, 60))}}}
            for name in chance.sample(sets, 2)]}
        for n in range(64)
    ]  # fmt: skip
    pool = {"name": "tight", "generation": 1, "resourceSliceCount": 2}
    base = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-1"}
    world["slices"] = [
        {"metadata": {"name": "tight-0"}, "spec": {**base, "sharedCounters": shared}},
        {"metadata": {"name": "tight-1"}, "spec": {**base, "devices": devices}},
    ]
    world["claims"][0]["spec"]["devices"] = {
        "requests": [
            {"name": f"r{n}", "exactly": {"deviceClassName": "any"}} for n in range(chance.randint(8, 32))
        ]
    }


_ATTACKS: Final[tuple[Callable[[Json, Random], None], ...]] = (
    _anything_anywhere, _anything_anywhere, _anything_anywhere, _huge_selector, _huge_counts, _many_claims,
    _many_requests, _tangled_constraints, _full_slices, _shares_that_hardly_fit, _counters_that_hardly_fit,
)  # fmt: skip


def _storable(world: Json) -> bool:
    """Return whether an API server would store every object: its limit is 1.5 MiB for each."""
    return all(
        _size(each) <= _LARGEST_OBJECT
        for kind in ("slices", "classes", "held", "claims")
        for each in world[kind]
    )


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(len(str(key)) + _size(each) + 4 for key, each in value.items())
    if isinstance(value, list):
        return sum(_size(each) + 2 for each in value)
    return len(str(value)) + 2


class _TooLongError(BaseException):
    """A time limit that no code catches."""


def _too_long(*_: object) -> None:
    raise _TooLongError


def find_violation(world: Json) -> str:
    """Return the violation of the rule, "" if the result is an allocation or an error of this package."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        our_answer(world)
    except DraError:
        return ""
    except _TooLongError:
        return f"took more than {SECONDS} s of CPU\n{traceback.format_exc(limit=-6)}"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def main(first: int, count: int) -> int:
    """Try the inputs from `first` on; the exit code is 1 if one breaks the rule."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _too_long)
    for seed in range(first, first + count):
        try:
            world = hostile_world(seed)
        except (TypeError, KeyError, AttributeError, IndexError):
            continue  # an earlier change removed what this one needs
        if _storable(world) and (problem := find_violation(world)):
            print(f"input {seed}: {problem}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
