"""Builds the allocator's input from a world."""

from dradriver.allocator.placement import Placer
from dradriver.cli.attempt.options import AttemptSettings
from dradriver.cli.world import World, allocation_node
from dradriver.model.resource.taint_rule import with_rules

__all__ = ["placer_of"]


def placer_of(world: World, settings: AttemptSettings) -> Placer:
    """Return a placer with the objects of the world."""
    placer = Placer(order=settings.order, features=settings.features, max_steps=settings.max_steps)
    rules = world.taint_rules if settings.taint_rules else []
    for source in world.slices:
        placer.put_slice(with_rules(source, rules) if rules else source)
    for device_class in world.classes.values():
        placer.put_class(device_class)
    for claim in world.claims.values():
        if claim.allocation is not None:
            placer.put_claim(claim)
    for node in world.places().values():
        placer.put_node(allocation_node(node))
    return placer
