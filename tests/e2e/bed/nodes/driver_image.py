"""An image for nodes without a registry: this Python, the dependencies of dradriver, and this tree.

It replaces the image of `packaging/Containerfile`, whose base needs a network. The command is the same; the
paths in the image differ.
"""

import hashlib
import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from tests.e2e.bed import programs
from tests.e2e.bed.nodes import images

IMAGE: Final = "bed.example/dradriver"
TAGS: Final = ("one", "two")
"""Two names of the same image: an upgrade from one to the other is an upgrade."""
ROOT: Final = Path(__file__).parents[4]
_PYTHON: Final = Path("opt/python")
_LIBRARY: Final = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
_SITE_PACKAGES: Final = f"{_PYTHON}/{_LIBRARY}/site-packages"
_NOT_NEEDED: Final = {
    "__pycache__", "config", "distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "test", "tests", "tkinter", "turtledemo",
}  # fmt: skip
_DRIVERS: Final = ("drivers/fpga", "drivers/gpu_mig", "examples/loop")


def archive(extra: str = "") -> Path:
    """Return the OCI archive with `IMAGE` in each of `TAGS`; it is written again only after a change.

    Args:
        extra: an extra of dradriver that the image contains too. The name of the image is then `IMAGE-EXTRA`.
    """
    name = f"{IMAGE}-{extra}" if extra else IMAGE
    files = dict(sorted(_files(extra)))
    state = hashlib.sha256(Path(__file__).read_bytes())
    for target, source in files.items():
        status = source.stat()
        state.update(f"{target} {source} {status.st_size} {status.st_mtime_ns}\n".encode())
    folder = programs.cache_folder("helm").parent / "images"
    kind = Path(name).name
    made = folder / f"{kind}_{state.hexdigest()[:16]}.tar"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(f"{kind}_*"):
            old.unlink(missing_ok=True)
        unfinished = made.with_suffix(".new")
        contents = {target: source.read_bytes() for target, source in files.items()}
        _write(unfinished, [f"{name}:{tag}" for tag in TAGS], contents)
        unfinished.replace(made)
    return made


def write_of_wheels(path: Path, image: str, wheels: Iterable[Path], extra: str = "") -> None:
    """Write an OCI archive with the contents of wheels, in place of this tree's packages.

    Args:
        path: the file.
        image: the name of the image, with its tag.
        wheels: the wheel of dradriver and those of drivers.
        extra: an extra of dradriver whose dependencies the image contains too.
    """
    base = [*_standard_library(), *_dependencies(extra)]
    programs_and_libraries = [Path(sys.executable), *(source for _, source in base if ".so" in source.name)]
    base += [_program(), *_shared_libraries(programs_and_libraries)]
    contents = {target: source.read_bytes() for target, source in base if "/dradriver" not in target}
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            contents |= {f"{_SITE_PACKAGES}/{name}": archive.read(name) for name in archive.namelist()}
    _write(path, [image], contents)


def _write(path: Path, names: Iterable[str], files: Mapping[str, bytes]) -> None:
    contents = dict(files)
    command = f"#!/{_PYTHON}/bin/python3\nfrom dradriver.cli import main\nmain()\n"
    contents[f"{_PYTHON}/bin/dradriver"] = command.encode()
    config = {
        "Entrypoint": ["dradriver"], "User": "65532:65532",
        "Env": [
            f"PATH=/{_PYTHON}/bin", f"LD_LIBRARY_PATH=/{_PYTHON}/lib", "PYTHONDONTWRITEBYTECODE=1",
            f"PYTHONPATH=/{_SITE_PACKAGES}",  # Debian's Python searches dist-packages
        ],
    }  # fmt: skip
    images.write_image(path, [images.layer(contents)], dict.fromkeys(names, config))


def _files(extra: str) -> Iterator[tuple[str, Path]]:
    """Yield paths in the image and their source files."""
    yield _program()
    found = [*_standard_library(), *_dependencies(extra), *_project()]
    yield from found
    programs_and_libraries = [Path(sys.executable), *(source for _, source in found if ".so" in source.name)]
    yield from _shared_libraries(programs_and_libraries)


def _program() -> tuple[str, Path]:
    return f"{_PYTHON}/bin/python3", Path(sys.executable).resolve()


def _standard_library() -> Iterator[tuple[str, Path]]:
    folder = Path(sysconfig.get_path("stdlib"))
    for source in folder.rglob("*"):
        relative = source.relative_to(folder)
        unneeded = any(part in _NOT_NEEDED or part.startswith("config-") for part in relative.parts)
        if source.is_file() and not unneeded:
            yield f"{_PYTHON}/{_LIBRARY}/{relative}", source


def _dependencies(extra: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of the distributions that dradriver with one extra, and its drivers, need at run time."""
    names, seen = ["dradriver", *(f"dradriver-{_name(driver)}" for driver in _DRIVERS)], set[str]()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another version of Python
        required = (each for each in distribution.requires or () if _is_required(each, name, extra))
        names += [re.split(r"[\s<>=!~;\[(]", each)[0] for each in required]
        for file in distribution.files or ():
            inside = file.parts[0] != ".." and "__pycache__" not in file.parts
            if inside and file.suffix != ".pth":
                yield f"{_SITE_PACKAGES}/{file.as_posix()}", Path(str(file.locate()))


def _is_required(requirement: str, name: str, extra: str) -> bool:
    """Return whether a requirement of a distribution applies, with an extra of dradriver."""
    _, _, condition = requirement.partition("extra ==")
    return not condition or (name == "dradriver" and condition.strip(" '\"") == extra)


def _project() -> Iterator[tuple[str, Path]]:
    """Yield the files of this tree's packages, as their wheels contain them."""
    drivers = (ROOT / driver / f"dradriver_{_name(driver).replace('-', '_')}" for driver in _DRIVERS)
    for folder in (ROOT / "dradriver", *drivers):
        for source in folder.rglob("*"):
            if source.is_file() and "__pycache__" not in source.parts:
                yield f"{_SITE_PACKAGES}/{source.relative_to(folder.parent)}", source


def _name(driver: str) -> str:
    """Return the name of the driver in a folder, as its entry point has it."""
    return Path(driver).name.replace("_", "-")


def _shared_libraries(binaries: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the shared libraries of the binaries, and the loader."""
    listed = subprocess.run(("ldd", *map(str, binaries)), check=False, capture_output=True, text=True).stdout
    for path in {Path(each) for each in re.findall(r"(/\S+) \(0x", listed)}:
        if path.name.startswith("ld-linux"):
            yield str(path).lstrip("/"), path.resolve()
        else:
            yield f"{_PYTHON}/lib/{path.name}", path.resolve()
