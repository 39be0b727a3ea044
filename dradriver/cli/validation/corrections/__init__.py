"""Proposes corrections for errors in objects.

- `hints`: the table of errors with their corrections.
- `spellings`: the nearest right spelling of names, kinds and versions.
- `quantities`: the nearest quantities that Kubernetes reads.
- `written_values`: finds the value that a document has at a path.
"""

from dradriver.cli.validation.corrections.hints import hint_for
from dradriver.cli.validation.corrections.quantities import is_quantity, nearest_quantities
from dradriver.cli.validation.corrections.spellings import nearest_word

__all__ = ["hint_for", "is_quantity", "nearest_quantities", "nearest_word"]
