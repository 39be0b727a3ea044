"""What a guest boots: an initramfs with modules for Debian's kernel."""

import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent


def find_modules(kernel: Path, built: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the modules of an unpacked kernel, and further ones, by name."""
    files = (*kernel.glob("lib/modules/**/*.ko"), *kernel.glob("lib/modules/**/*.ko.xz"), *built)
    return {file.name.partition(".ko")[0]: file for file in files}


def make_initramfs(
    kernel: Path, modules: Mapping[str, Path], load: Sequence[str], suite: str, folder: Path
) -> Path:
    """Make one that loads modules and runs commands.

    Args:
        kernel: folder with an unpacked kernel and busybox.
        modules: file of each module that is available.
        load: names of the modules to load. Those that they need are loaded before them.
        suite: commands for the shell.
        folder: where the initramfs is made.
    """
    tree = folder / "initramfs"
    for name in ("bin", "modules", "dev", "host"):
        (tree / name).mkdir(parents=True)
    contents = {name: _read(file) for name, file in modules.items()}
    for number, name in enumerate(_in_order(contents, *load)):
        (tree / "modules" / f"{number:02}-{name}.ko").write_bytes(contents[name])
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


def _read(file: Path) -> bytes:
    return lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()


def _in_order(modules: Mapping[str, bytes], *names: str) -> Iterator[str]:
    """The modules, each after those that it takes, as it says itself."""
    done: set[str] = set()

    def after_its_own(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        found = re.search(rb"\0depends=([^\0]*)\0", modules[name])
        for other in filter(None, found[1].decode().split(",") if found else ()):
            yield from after_its_own(other)
        yield name

    for name in names:
        yield from after_its_own(name)
