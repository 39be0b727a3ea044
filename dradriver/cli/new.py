"""`dradriver new`: writes a complete driver project that passes its tests."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from dradriver.errors import DraError, UsageError
from dradriver.model import names

__all__ = ["new"]

_SUFFIX = ".tmpl"
_HIDDEN = ("gitignore", "containerignore", "github")
"""Files and folders whose names start with a dot in the project."""
_REQUIREMENTS = {"node": ".", "classic": ". 'dradriver[scheduler]'"}
"""What the image contains: with a controller, the same image also runs the scheduler."""


@click.command(short_help="Write a project for a new driver.")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the project; must be new or empty.  [default: dradriver-NAME]",
)
@click.option(
    "--classic",
    is_flag=True,
    help="Also write a controller that allocates claims, instead of the scheduler (KEP-3063).",
)
def new(name: str, directory: Path | None, classic: bool) -> None:
    """Write a project for the driver NAME: package, tests, manifests, image, chart values, CI and README.

    NAME is a DNS label that starts with a letter, such as led. The driver's name is then led.example.com, and
    that of its controller is controller.led.example.com.
    """
    kind = "classic" if classic else "node"
    values = {**_values(name), "requirements": _REQUIREMENTS[kind]}
    target = directory or Path(values["distribution"])
    written = _write(target, kind, values)
    for path in written:
        click.echo(path)
    click.echo(f"\nNext: cd {target}. Its README.md describes how to install and test the driver.", err=True)


def _values(name: str) -> dict[str, str]:
    """Return the values of the skeleton's placeholders."""
    if (rule := names.dns_label(name)) or not name[0].isalpha():
        raise UsageError(
            f"NAME: {rule or f'{name!r} must start with a letter: it becomes the name of a Python class'}"
        )
    driver = f"{name}.example.com"
    controller = f"controller.{driver}"
    if rule := names.driver_name(controller):
        raise UsageError(f"NAME: {rule}")
    camel = "".join(part.capitalize() for part in name.split("-"))
    word = name.replace("-", "_")
    return {
        "name": name,
        "distribution": f"dradriver-{name}",
        "package": f"dradriver_{word}",
        "class": f"{camel}Driver",
        "config": f"{camel}Config",
        "driver": driver,
        "controller": controller,
        "controller_class": f"{camel}Controller",
        "variable": f"{word.upper()}_DEVICE",
    }


def _write(target: Path, kind: str, values: dict[str, str]) -> list[Path]:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DraError(f"{target} exists and is not an empty folder: choose another one with --directory")
    written: list[Path] = []
    try:
        for part in ("common", kind):
            _copy(files("dradriver.cli") / "skeleton" / part, target, values, written)
    except OSError as error:
        raise DraError(f"{error.filename or target}: {error.strerror}") from error
    return written


def _copy(source: Traversable, target: Path, values: dict[str, str], written: list[Path]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(source.iterdir(), key=lambda each: (each.is_dir(), each.name)):
        if entry.is_dir():
            folder = values["package"] if entry.name == "package" else _name(entry.name)
            _copy(entry, target / folder, values, written)
        elif entry.name.endswith(_SUFFIX):
            path = target / _name(entry.name.removesuffix(_SUFFIX))
            text = entry.read_text(encoding="utf-8")
            for key, value in values.items():
                text = text.replace(f"@{key}@", value)
            path.write_text(text, encoding="utf-8")
            written.append(path)


def _name(entry: str) -> str:
    return f".{entry}" if entry in _HIDDEN else entry
