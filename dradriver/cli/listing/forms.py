"""Output formats of `-o`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dradriver.cli.habits import suggest
from dradriver.errors import UsageError

__all__ = ["FORMS", "TABLE", "OutputForm", "parse_form"]

FORMS: Final = ("table", "wide", "name", "json", "yaml", "jsonpath=TEMPLATE", "custom-columns=NAME:PATH,...")
_INSTEAD: Final[Mapping[str, str]] = {
    "go-template": "write the template as jsonpath=TEMPLATE, for example jsonpath='{.items[*].metadata.name}'",
    "go-template-file": "write the template as jsonpath-file=FILE",
    "template": "write the template as jsonpath=TEMPLATE",
    "templatefile": "write the template as jsonpath-file=FILE",
    "custom-columns-file": "write the columns as custom-columns=NAME:PATH,...",
    "jsonpath-as-json": "write -o json and a filter such as jq",
    "kyaml": "write -o yaml",
}


@dataclass(frozen=True, slots=True)
class OutputForm:
    """An output format.

    Attributes:
        name: `table`, `wide`, `name`, `json`, `yaml`, `jsonpath` or `custom-columns`.
        template: the template or the columns; empty for the other formats.
    """

    name: str
    template: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the format is a table of the command's own columns."""
        return self.name in {"table", "wide"}


TABLE: Final = OutputForm("table")


def parse_form(text: str) -> OutputForm:
    """Return the output format that the value of `-o` names.

    Args:
        text: the value, such as `wide` or `jsonpath={.items[*].metadata.name}`.

    Raises:
        UsageError: there is no such format, or its template is missing or cannot be read.
    """
    name, _, template = text.partition("=")
    if name in {"table", "wide", "name", "json", "yaml"} and not template:
        return OutputForm(name)
    if name in {"jsonpath", "custom-columns", "jsonpath-file"}:
        if not template:
            raise UsageError(f"-o {name}: the template is missing: write {name}=TEMPLATE")
        return (
            OutputForm("jsonpath", _read(template)) if name == "jsonpath-file" else OutputForm(name, template)
        )
    if name in _INSTEAD:
        raise UsageError(f"-o {name} is not supported: {_INSTEAD[name]}")
    hint = suggest(name, (form.partition("=")[0] for form in FORMS))
    raise UsageError(
        f"-o {text!r}: must be {', '.join(FORMS[:-1])} or {FORMS[-1]}" + (f"; {hint}" if hint else "")
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UsageError(f"-o jsonpath-file={path}: {error}") from error
