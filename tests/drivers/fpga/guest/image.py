"""What the guest boots: modules built for Debian's kernel, and an initramfs with them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.drivers.fpga.guest.packages import CORE

_HERE: Final = Path(__file__).parent
_SHARE: Final = ("virtio_pci", "9pnet_virtio", "9p")
"""The kernel's own modules that the share of the host's files takes."""


def build_modules(kernel: Path, folder: Path) -> list[Path]:
    """Builds those of `module/`, and the kernel's FPGA core, below a new folder.

    Raises:
        CalledProcessError: that failed; what the compiler said is on stderr.
    """
    shutil.copytree(_HERE / "module", folder)
    for name in CORE:
        shutil.copy(kernel / "drivers" / "fpga" / name, folder)
    (headers,), (common,) = (
        list(kernel.glob(f"usr/src/linux-headers-*-{kind}")) for kind in ("amd64", "common")
    )
    # The makefile of the former names the place where the package would have been installed.
    place = ("-C", str(headers), "-f", str(common / "Makefile"), f"M={folder}")
    without_btf = "CONFIG_DEBUG_INFO_BTF_MODULES="  # which would take the kernel's own
    libelf = {"LD_LIBRARY_PATH": str(kernel / "usr/lib/x86_64-linux-gnu")}
    command = ("make", "--silent", *place, without_btf, "modules")
    subprocess.run(command, env={**os.environ, **libelf}, check=True)
    return sorted(folder.glob("*.ko"))


def make_initramfs(kernel: Path, modules: Sequence[Path], suite: str, folder: Path) -> Path:
    """Makes one below a folder, which loads the modules and runs the shell's commands of `suite`."""
    tree = folder / "initramfs"
    for name in ("bin", "modules", "dev", "host"):
        (tree / name).mkdir(parents=True)
    available = {module.stem: module for module in (*kernel.glob("lib/modules/**/*.ko"), *modules)}
    for number, name in enumerate(_in_order(available, *_SHARE, *(module.stem for module in modules))):
        shutil.copy(available[name], tree / "modules" / f"{number:02}-{name}.ko")
    busybox = Path(shutil.copy(kernel / "bin" / "busybox", tree / "bin"))
    shutil.copy(_HERE / "init.sh", tree / "init")
    (tree / "init").chmod(0o755)
    (tree / "suite").write_text(suite)
    files = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    cpio = (busybox, "cpio", "-o", "-H", "newc")
    done = subprocess.run(cpio, cwd=tree, input=files.encode(), capture_output=True, check=True)
    initramfs = folder / "initramfs.cpio"
    initramfs.write_bytes(done.stdout)
    return initramfs


def _in_order(modules: dict[str, Path], *names: str) -> Iterator[str]:
    """The modules, each after those that it takes, as it says itself."""
    done: set[str] = set()

    def after_its_own(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        found = re.search(rb"\0depends=([^\0]*)\0", modules[name].read_bytes())
        for other in filter(None, found[1].decode().split(",") if found else ()):
            yield from after_its_own(other)
        yield name

    for name in names:
        yield from after_its_own(name)
