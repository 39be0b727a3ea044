"""What `nvidia-smi` prints, as values: a second voice about the same GPUs."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

__all__ = ["GPU_FIELDS", "SmiProfile", "parse_gpus", "parse_placements", "parse_profiles", "run_nvidia_smi"]

GPU_FIELDS = (
    "index,uuid,pci.bus_id,name,driver_version,memory.total,compute_cap,mig.mode.current,mig.mode.pending"
)

_PROFILE = re.compile(
    r"\|\s*(?P<gpu>\d+)\s+MIG (?P<name>\S+)\s+(?P<id>\d+)\s+\d+/(?P<most>\d+)\s+(?P<gib>[\d.]+)\s+\w+"
    r"\s+(?P<sm>\d+)\s+(?P<dec>\d+)\s+(?P<enc>\d+)\s*\|\n\|\s*(?P<ce>\d+)\s+(?P<jpeg>\d+)\s+(?P<ofa>\d+)\s*\|"
)
_PLACEMENTS = re.compile(r"GPU\s+(\d+) Profile ID\s+(\d+) Placements?\s*: \{([\d,]+)\}:(\d+)")


@dataclass(frozen=True)
class SmiProfile:
    """A row of `nvidia-smi mig -lgip`; memory in GiB, with as many digits as are printed."""

    name: str
    max_instances: int
    gib: Decimal
    engines: tuple[int, int, int, int, int, int]


def run_nvidia_smi(*arguments: str) -> tuple[int, str]:
    """What it exits with and prints; 127 where it is not installed."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *arguments], capture_output=True, text=True, check=False, timeout=60
        )
    except FileNotFoundError:
        return 127, ""
    return done.returncode, done.stdout


def parse_gpus(text: str) -> list[dict[str, str]]:
    """`--query-gpu=GPU_FIELDS --format=csv,noheader,nounits`."""
    names = GPU_FIELDS.split(",")
    return [dict(zip(names, line.split(", "), strict=True)) for line in text.splitlines() if line]


def parse_profiles(text: str) -> Mapping[tuple[int, int], SmiProfile]:
    """`mig -lgip`, by GPU's index and profile's ID."""
    return {
        (int(row["gpu"]), int(row["id"])): SmiProfile(
            row["name"],
            int(row["most"]),
            Decimal(row["gib"]),
            (
                int(row["sm"]),
                int(row["ce"]),
                int(row["dec"]),
                int(row["enc"]),
                int(row["jpeg"]),
                int(row["ofa"]),
            ),
        )
        for row in _PROFILE.finditer(text)
    }


def parse_placements(text: str) -> Mapping[tuple[int, int], list[tuple[int, int]]]:
    """`mig -lgipp`, by GPU's index and profile's ID: starts and sizes."""
    return {
        (int(gpu), int(profile)): [(int(start), int(size)) for start in starts.split(",")]
        for gpu, profile, starts, size in _PLACEMENTS.findall(text)
    }
