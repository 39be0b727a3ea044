"""Lists of objects with the options of `kubectl get`: names, selectors, output formats, watching.

Law of this package: a kind declares which objects it reads and how they become rows. This package reads,
selects, sorts, prints and watches them. It must not know a kind.

- `rows`: `Kind`, `ListRow` and the objects that were read.
- `options`: the options, as a `Query`.
- `collecting`: collects the lists of several kinds.
- `forms`: output formats of `-o`.
- `reading`: reads and selects.
- `printing`: prints rows and documents.
- `watching`: finds changed rows as they come.
- `document_watching`: finds changed objects of the API as they come.
- `show`: answers a query.
"""

from dradriver.cli.listing.collecting import collect_parts, is_collecting
from dradriver.cli.listing.forms import OutputForm, parse_form
from dradriver.cli.listing.options import (
    Query,
    listing_options,
    namespace_options,
    selector_options,
    unused_namespace_options,
    unused_selector_options,
)
from dradriver.cli.listing.rows import Kind, ListedObjects, ListRow, ListSource, document_row
from dradriver.cli.listing.show import print_parts, show_files, show_list
from dradriver.cli.listing.watching import follow

__all__ = [
    "Kind",
    "ListRow",
    "ListSource",
    "ListedObjects",
    "OutputForm",
    "Query",
    "collect_parts",
    "document_row",
    "follow",
    "is_collecting",
    "listing_options",
    "namespace_options",
    "parse_form",
    "print_parts",
    "selector_options",
    "show_files",
    "show_list",
    "unused_namespace_options",
    "unused_selector_options",
]
