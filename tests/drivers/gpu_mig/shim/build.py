"""Builds the shim of libnvidia-ml, from the tables of the simulator."""

import subprocess
from pathlib import Path
from typing import Final

import pynvml

from dradriver_gpu_mig.card.simulator import CATALOG, GpuModel
from tests.e2e.bed.programs import COMPILER

__all__ = ["DRIVER_VERSION", "build_shim"]

DRIVER_VERSION: Final = "580.82.07"
_SOURCES: Final = Path(__file__).parent
_FLAGS: Final = ("-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fPIC", "-shared")


def build_shim(folder: Path, *defines: str) -> Path:
    """The library, built into `folder` as a driver's installer leaves it: libnvidia-ml.so.1 is a link.

    Args:
        folder: where to.
        defines: `OLD_DRIVER` for one that lacks what came later.
    """
    assert COMPILER is not None, "no C compiler"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.h").write_text(_tables())
    library = folder / f"libnvidia-ml.so.{DRIVER_VERSION}"
    macros = (*(f"-D{name}" for name in defines), f'-DDRIVER="{DRIVER_VERSION}"')
    command = (COMPILER, *_FLAGS, *macros, f"-I{folder}", "-Wl,-soname,libnvidia-ml.so.1", "-pthread")
    subprocess.run((*command, "-o", str(library), str(_SOURCES / "shim.c")), check=True)
    (folder / "tables.h").unlink()
    link = folder / "libnvidia-ml.so.1"
    link.unlink(missing_ok=True)
    link.symlink_to(library.name)
    return link


def _tables() -> str:
    cards = [_card(index, key, model) for index, (key, model) in enumerate(CATALOG.items())]
    rows = ",\n".join(row for _, row in cards)
    return "\n".join(profiles for profiles, _ in cards) + f"\nstatic const model_t MODELS[] = {{\n{rows}\n}};\n"


def _card(index: int, key: str, model: GpuModel) -> tuple[str, str]:
    profiles = ",\n".join(
        f"  {{{p.slot}, {p.id}, {p.memory}, {p.slices}, {p.multiprocessors}, {p.copy_engines}, {p.decoders}, "
        f"{p.encoders}, {p.jpeg_engines}, {p.ofa_engines}, {p.max_instances}, {p.size}, {len(p.starts)}, "
        f'{{{", ".join(map(str, p.starts))}}}, "{p.name}"}}'
        for p in model.profiles
    )
    major, minor = model.compute_capability
    architecture = getattr(pynvml, f"NVML_DEVICE_ARCH_{model.architecture.upper()}")
    row = (
        f'  {{"{key}", "{model.name}", {pynvml.NVML_BRAND_NVIDIA}, {architecture}, {major}, {minor}, '
        f"{model.pci_device}u, {model.memory}, {model.compute_slices}, {model.memory_slices}, "
        f"{int(model.mig_needs_reset)}, {len(model.profiles)}, PROFILES_{index}}}"
    )
    return f"static const profile_t PROFILES_{index}[] = {{\n{profiles}\n}};", row
