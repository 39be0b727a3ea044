"""Computes the overview of a world."""

from collections.abc import Iterable
from datetime import UTC, datetime

from dradriver.cli.world.world import World
from dradriver.model.resource.claim import ResourceClaim
from dradriver.overview import Overview, build_overview

__all__ = ["overview_of"]


def overview_of(world: World, claims: Iterable[ResourceClaim] | None = None) -> Overview:
    """Return the overview of a world.

    Args:
        world: the objects.
        claims: the claims; None: those of the world.
    """
    return build_overview(
        world.slices,
        world.claims.values() if claims is None else claims,
        world.pods.values(),
        world.nodes.values(),
        world.taint_rules,
        datetime.now(UTC),
    )
