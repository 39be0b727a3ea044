"""A world given to the allocator: what `simulate` and `explain` share.

Law of this package: it asks, with the scheduler's own filters and the allocator as it is, and decides nothing.
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
