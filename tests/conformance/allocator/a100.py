"""The A100 40GB of KEP-4815's table as builtins: every MIG profile at every valid placement."""

from typing import Any, Final

# Profile: Mi of memory, multiprocessors, copy engines, decoders, JPEG and OFA engines, size, starts.
PROFILES: Final = {
    "1g.5gb": (4864, 14, 1, 0, 0, 1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.5gb+me": (4864, 14, 1, 1, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.10gb": (9856, 14, 1, 1, 0, 2, (0, 2, 4, 6)),
    "2g.10gb": (9856, 28, 2, 1, 0, 2, (0, 2, 4)),
    "3g.20gb": (19968, 42, 3, 2, 0, 4, (0, 4)),
    "4g.20gb": (19968, 56, 4, 2, 0, 4, (0,)),
    "7g.40gb": (40192, 98, 7, 5, 1, 8, (0,)),
}

Json = dict[str, Any]


def a100_slices(node: str, gpus: int) -> list[Json]:
    """Return the ResourceSlices of a node with GPUs: the counters, then each GPU's devices, smallest first."""
    counters = [
        _slice(node, "0-counters", gpus, {"sharedCounters": [_counter_set(gpu) for gpu in range(gpus)]})
    ]
    return counters + [
        _slice(node, f"1-gpu-{gpu}", gpus, {"devices": list(_devices(gpu))}) for gpu in range(gpus)
    ]


def _slice(node: str, name: str, gpus: int, content: Json) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": gpus + 1}
    return {
        "metadata": {"name": f"{node}-{name}"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, **content},
    }


def _counter_set(gpu: int) -> Json:
    slices = {f"memory-slice-{number}": _value(1) for number in range(8)}
    return {"name": f"gpu-{gpu}-counter-set", "counters": {**_amounts("7g.40gb"), **slices}}


def _devices(gpu: int) -> list[Json]:
    return [_device(gpu, profile, first) for profile, table in PROFILES.items() for first in table[6]]


def _device(gpu: int, profile: str, first: int) -> Json:
    size = PROFILES[profile][5]
    slices = {f"memory-slice-{number}": _value(1) for number in range(first, first + size)}
    label = profile.replace(".", "-").replace("+", "-")
    name = f"gpu-{gpu}" if profile == "7g.40gb" else f"gpu-{gpu}-mig-{label}-{first}"
    return {
        "name": name,
        "attributes": {"profile": {"string": profile}, "parentUUID": {"string": f"GPU-{gpu}"}},
        "capacity": {"memory": _value(f"{PROFILES[profile][0]}Mi")},
        "consumesCounters": [
            {"counterSet": f"gpu-{gpu}-counter-set", "counters": {**_amounts(profile), **slices}}
        ],
    }


def _amounts(profile: str) -> Json:
    memory, multiprocessors, copy_engines, decoders, engines, _, _ = PROFILES[profile]
    return {
        "memory": _value(f"{memory}Mi"),
        "multiprocessors": _value(multiprocessors),
        "copy-engines": _value(copy_engines),
        "decoders": _value(decoders),
        "encoders": _value(0),
        "jpeg-engines": _value(engines),
        "ofa-engines": _value(engines),
    }


def _value(amount: int | str) -> Json:
    return {"value": str(amount)}
