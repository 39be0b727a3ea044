"""Container images made of files of this machine: there is no registry."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

BUSYBOX: Final = "docker.io/library/busybox:latest"
PAUSE: Final = "bed.example/pause:latest"
"""The image of the container that holds a pod's namespaces."""


def busybox_program() -> Path | None:
    """Return a statically linked BusyBox; None if there is none."""
    found = shutil.which("busybox")
    if found is None:
        return None
    # A statically linked program names no interpreter.
    return None if b"/ld-linux" in Path(found).read_bytes() else Path(found)


def _entry(name: str, *, kind: bytes = tarfile.REGTYPE, mode: int = 0o755) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, mode
    return info


def layer(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    """Return a file system layer: contents by path, and targets of symbolic links by path."""
    buffer = io.BytesIO()
    folders: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in (*files, *(links or {}), "tmp/x"):
            for parent in reversed(Path(path).parents[:-1]):
                if str(parent) not in folders:
                    folders.add(str(parent))
                    archive.addfile(
                        _entry(str(parent), kind=tarfile.DIRTYPE, mode=0o1777 if path == "tmp/x" else 0o755)
                    )
        for path, content in files.items():
            info = _entry(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for path, target in (links or {}).items():
            info = _entry(path, kind=tarfile.SYMTYPE)
            info.linkname = target
            archive.addfile(info)
    return buffer.getvalue()


def write_image(path: Path, layers: list[bytes], images: Mapping[str, Mapping[str, Any]]) -> None:
    """Write an OCI archive.

    Args:
        path: the file.
        layers: uncompressed tar archives, the lowest first; see `layer`.
        images: the `config` of an image (`Cmd`, `Env`, `User`, ...) by its full name; they share the layers.
    """
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    kind = "application/vnd.oci.image"
    stored = [blob(gzip.compress(each, 1, mtime=0), f"{kind}.layer.v1.tar+gzip") for each in layers]
    diffs = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    manifests = []
    for name, config in images.items():
        document = {"architecture": _architecture(), "os": "linux", "config": config,
                    "rootfs": {"type": "layers", "diff_ids": diffs}}  # fmt: skip
        described = blob(json.dumps(document).encode(), f"{kind}.config.v1+json")
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{kind}.manifest.v1+json",
            "config": described,
            "layers": stored,
        }
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        manifests.append(
            {**blob(json.dumps(manifest).encode(), f"{kind}.manifest.v1+json"), "annotations": names}
        )
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": manifests}).encode(),
        **blobs,
    }
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            info = _entry(name, mode=0o644)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _architecture() -> str:
    machine = subprocess.run(("uname", "-m"), check=True, capture_output=True, text=True).stdout.strip()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def write_busybox(path: Path) -> None:
    """Write an archive with the images `BUSYBOX` and `PAUSE`."""
    program = busybox_program()
    assert program is not None
    applets = subprocess.run((program, "--list"), check=True, capture_output=True, text=True).stdout.split()
    files = {"bin/busybox": program.read_bytes(), "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n"}
    links = {f"bin/{each}": "busybox" for each in applets if each != "busybox"}
    write_image(
        path,
        [layer(files, links)],
        {BUSYBOX: {"Cmd": ["sh"], "Env": ["PATH=/bin"]}, PAUSE: {"Entrypoint": ["/bin/sleep", "infinity"]}},
    )
