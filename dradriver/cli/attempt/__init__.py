"""Runs the allocator on a world. Shared by `simulate` and `explain`.

Law of this package: it uses the scheduler's own filters and the unmodified allocator, and decides nothing
itself.

- `options`: allocator settings from command-line options.
- `placing`: builds a `Placer` from a world.
- `filters`: the scheduler's node filters.
- `extended`: extended resources of pods.
- `nodes`: names for groups of nodes.
"""

from dradriver.cli.attempt.extended import ExtendedResources, serving_classes, special_claims
from dradriver.cli.attempt.filters import Filters
from dradriver.cli.attempt.nodes import anonymous, named_nodes
from dradriver.cli.attempt.options import AttemptSettings, settings_options
from dradriver.cli.attempt.placing import placer_of

__all__ = [
    "AttemptSettings",
    "ExtendedResources",
    "Filters",
    "anonymous",
    "named_nodes",
    "placer_of",
    "serving_classes",
    "settings_options",
    "special_claims",
]
