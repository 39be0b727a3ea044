"""The image of kube-scheduler for nodes without a registry: one program, as in the image of Kubernetes."""

from pathlib import Path
from typing import Final

from tests.e2e.bed import programs
from tests.e2e.bed.nodes import images

__all__ = ["IMAGE", "archive"]

IMAGE: Final = "bed.example/kube-scheduler"
"""Its tag is the version of the cluster, which is the default of the chart."""


def archive() -> Path:
    """Return the OCI archive; it is written once for each version."""
    folder = programs.cache_folder("helm").parent / "images"
    made = folder / f"kube-scheduler_{programs.KUBERNETES}.tar"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = made.with_suffix(".new")
        program = programs.program("kube-scheduler").read_bytes()
        config = {"Entrypoint": ["kube-scheduler"], "Env": ["PATH=/usr/local/bin"], "User": "65532:65532"}
        layer = images.layer({"usr/local/bin/kube-scheduler": program})
        images.write_image(unfinished, [layer], {f"{IMAGE}:v{programs.KUBERNETES}": config})
        unfinished.replace(made)
    return made
