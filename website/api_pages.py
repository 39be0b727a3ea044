"""The pages of the public API. mkdocstrings fills them from the docstrings."""

from collections.abc import Iterator
from typing import Final

import dradriver
import dradriver.testing

__all__ = ["list_api_pages"]

FOLDER: Final = "reference/api/"
_TITLES: Final = (
    ("drivers", "Drivers", ("dradriver.driver", "dradriver.runner")),
    (
        "devices",
        "Devices and pools",
        ("dradriver.model.resource", "dradriver.model.core", "dradriver.model.quantity"),
    ),
    ("containers", "Edits of a container", ("dradriver.model.cdi",)),
    ("attributes", "Standard attributes", ("dradriver.sysfs",)),
    ("errors", "Errors", ("dradriver.errors",)),
    ("testing", "The test kit", ("dradriver.testing",)),
)
"""File, title, and the packages whose public names are on the page."""


def list_api_pages() -> dict[str, str]:
    """Return the Markdown of each page of the API, by its path in the site.

    Raises:
        LookupError: a public name belongs to no page.
    """
    sections: dict[str, list[str]] = {file: [] for file, _, _ in _TITLES}
    for name, home in _public_names():
        file = next((file for file, _, packages in _TITLES if home.startswith(packages)), None)
        if file is None:
            raise LookupError(f"{name}: no page of the API has the names of {home}")
        sections[file].append(name)
    return {
        f"{FOLDER}{file}.md": f"# {title}\n\n" + "\n".join(f"::: {name}\n" for name in sections[file])
        for file, title, _ in _TITLES
    }


def _public_names() -> Iterator[tuple[str, str]]:
    for name in sorted(dradriver.__all__):
        home = getattr(dradriver, name).__module__
        # A type alias has the module of its type. The aliases are the arguments and results of drivers.
        yield f"dradriver.{name}", home if home.startswith("dradriver.") else "dradriver.driver"
    # The test kit's names are not imported: some of them need pytest.
    for name in sorted(dradriver.testing.__all__):
        yield f"dradriver.testing.{name}", "dradriver.testing"
