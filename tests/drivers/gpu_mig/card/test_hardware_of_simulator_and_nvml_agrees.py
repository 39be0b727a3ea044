"""The same random calls on two implementations of `GpuHardware` that share no code."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dradriver_gpu_mig.card import GpuError, GpuHardware, GpuInstance, Placement
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import CATALOG, SimulatedGpus
from tests.drivers.gpu_mig.mig_devices import list_mig_devices

STEPS = 300


def walk(hardware: GpuHardware, seed: int) -> list[object]:
    """What hardware answers to random requests, sensible ones and others."""
    chance = random.Random(seed)
    (gpu,) = hardware.gpus()
    profiles = hardware.profiles(gpu.uuid)
    said: list[object] = [[(each.id, each.name, each.memory, each.placements) for each in profiles]]
    for _ in range(STEPS):
        profile, number, compute = chance.choice(profiles), chance.randrange(15), chance.randrange(2)
        place = chance.choice([*profile.placements, Placement(chance.randrange(9), profile.memory_slices)])
        missing = GpuInstance(number, profile.id, place)
        instance = next((each for each in hardware.gpu_instances(gpu.uuid) if each.id == number), missing)
        actions: list[Callable[[], object]] = [
            partial(hardware.create_gpu_instance, gpu.uuid, profile.id, place),
            partial(create_compute_instance, hardware, gpu.uuid, instance),
            partial(list_compute_ids, hardware, gpu.uuid, instance),
            partial(hardware.find_gpu_instance, gpu.uuid, profile.id, place),
            partial(hardware.destroy_compute_instance, gpu.uuid, number, compute),
            partial(hardware.destroy_gpu_instance, gpu.uuid, number),
        ]
        try:
            said.append(chance.choices(actions, [3, 2, 1, 1, 2, 2])[0]())
        except GpuError as error:
            said.append(type(error))
        devices = list_mig_devices(hardware, gpu.uuid)
        said.append((hardware.gpu_instances(gpu.uuid), [each.gpu_instance for each in devices]))
    return said


def create_compute_instance(hardware: GpuHardware, gpu: str, instance: GpuInstance) -> tuple[int, int]:
    made = hardware.create_compute_instance(gpu, instance)  # UUIDs are each implementation's own
    return made.gpu_instance, made.compute_instance


def list_compute_ids(hardware: GpuHardware, gpu: str, instance: GpuInstance) -> list[int]:
    return [device.compute_instance for device in hardware.mig_devices(gpu, instance)]


@pytest.mark.parametrize("card", [name for name, model in CATALOG.items() if model.profiles])
def test_a_random_walk_is_answered_alike(
    card: str, shim: Callable[..., tuple[NvmlGpus, object]], tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    simulated = SimulatedGpus([card])
    simulated.open()
    expected = walk(simulated, seed)
    for step, (one, other) in enumerate(zip(walk(shim(card)[0], seed), expected, strict=True)):
        assert one == other, f"seed {seed}, answer {step}: NVML says {one}, the simulator {other}"
