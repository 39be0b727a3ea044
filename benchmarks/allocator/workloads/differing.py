"""Workloads whose nodes have their own values in what selectors read, or their own cards."""

import random
from collections.abc import Iterator, Mapping
from typing import Final

from benchmarks.allocator.workloads.alike import filled, mig_workload
from benchmarks.allocator.workloads.claims import (
    GPUS,
    OF_GPU,
    SHARES,
    draw_profiles,
    gpu_classes,
    held_claim,
    one_claim,
)
from benchmarks.allocator.workloads.devices import (
    CARD_MEBIBYTES,
    Template,
    card_name,
    mig_node,
    partition_name,
)
from benchmarks.allocator.workloads.stream import Workload, named_nodes, node_names
from dradriver.model.resource.claim import ClaimSpec, ResourceClaim

__all__ = ["IN", "guarded", "guarded_groups", "mig_claim", "named_cards", "other_cards", "sizes", "spread"]

IN: Final = f'"profile" in {OF_GPU} && {OF_GPU}.profile == "{{}}"'
"""A selector of a profile that checks first that the device has one."""

_IDIOMS: Final = (
    f'{OF_GPU}.profile == "{{}}"',
    IN,
    f'has({OF_GPU}.profile) && {OF_GPU}.profile == "{{}}"',
    f'{OF_GPU}.?profile.orValue("") == "{{}}"',
    f'cel.bind(a, {OF_GPU}, a.profile == "{{}}")',
)
_SIZES: Final = (1, 2, 4, 6, 8)
_FIRMWARE: Final = "96.0.0"


def mig_claim(selector: str) -> ClaimSpec:
    """Return a claim for one MIG device."""
    return one_claim("mig.example.com", selector)


def guarded(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of selectors that read a map, in which each node's devices have values of their own."""
    specs = {profile: mig_claim(IN.format(profile)) for profile in SHARES}
    return mig_workload(f"MIG, `in`, {nodes} nodes", nodes, seed, specs, target=20, sample=sample)


def guarded_groups(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return the workload `guarded` with compatibility groups and vGPUs, which one pod of five requests."""
    specs = {profile: mig_claim(IN.format(profile)) for profile in SHARES}
    specs["vgpu"] = one_claim("vgpu.example.com")
    name = f"MIG and vGPU in groups, `in`, {nodes} nodes"
    return mig_workload(name, nodes, seed, specs, target=20, sample=sample)


def other_cards(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload in which no two selectors are equal: each excludes other cards by name."""
    cards = [card_name(node, card) for node in node_names(nodes) for card in range(GPUS)]
    random.Random(seed).shuffle(cards)

    def excluding(number: int, profile: str) -> ClaimSpec:
        first, more = number % len(cards), number // len(cards)
        excluded = cards[first : first + 1 + more]
        return mig_claim(
            " && ".join([IN.format(profile), *(f'{OF_GPU}.parent != "{card}"' for card in excluded)])
        )

    template = Template(mig_node(GPUS))
    return Workload(
        name=f"MIG, each selector excludes another card, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=lambda: filled(template, node_names(nodes)),
        classes=gpu_classes(),
        pods=tuple(excluding(*drawn) for drawn in enumerate(draw_profiles(seed, nodes * GPUS))),
        sample=sample,
    )


def named_cards(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload in which each pod requests a MIG device of one card by the card's name."""
    draw = random.Random(seed)
    cards = [card_name(node, card) for node in node_names(nodes) for card in range(GPUS)]
    draw.shuffle(cards)
    profiles = draw.choices(list(SHARES), list(SHARES.values()), k=len(cards))
    template = Template(mig_node(GPUS))
    return Workload(
        name=f"MIG, each selector names a card, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=lambda: filled(template, node_names(nodes)),
        classes=gpu_classes(),
        pods=tuple(
            mig_claim(f'{IN.format(profile)} && {OF_GPU}.parent == "{card}"')
            for profile, card in zip(profiles, cards, strict=True)
        ),
        sample=sample,
    )


def sizes(nodes: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of nodes with one to eight cards, a fifth of them in use, and five idioms of selectors.

    A card in use is held as a whole, or two of its MIG devices are.
    """
    draw = random.Random(seed)
    templates = {cards: Template(mig_node(cards)) for cards in _SIZES}
    cards = {node: draw.choice(_SIZES) for node in node_names(nodes)}
    specs = [{profile: mig_claim(idiom.format(profile)) for profile in SHARES} for idiom in _IDIOMS]
    every = [(node, card) for node, count in cards.items() for card in range(count)]
    used = sorted(draw.sample(every, len(every) // 5))
    return Workload(
        name=f"MIG, five sizes of nodes, a fifth in use, five idioms, {nodes} nodes",
        nodes=named_nodes(nodes),
        slices=lambda: _by_size(templates, cards),
        classes=gpu_classes(),
        pods=tuple(draw.choice(specs)[profile] for profile in draw_profiles(seed, len(every) - len(used))),
        held=tuple(_held(number, node, card) for number, (node, card) in enumerate(used)),
        sample=sample,
    )


def _by_size(templates: Mapping[int, Template], cards: Mapping[str, int]) -> Iterator[bytes]:
    for node, count in cards.items():
        yield from templates[count].fill(node)


def _held(number: int, node: str, card: int) -> ResourceClaim:
    parts = (partition_name(card, "3g.20gb", 4), partition_name(card, "1g.5gb", 1))
    return held_claim(f"held-{number}", node, *(parts if number % 2 else (f"gpu-{card}",)))


def spread(nodes: int, percent: int, seed: int, sample: int = 0) -> Workload:
    """Return a workload of MIG nodes, a part of which differs in an attribute that is read and in its cards.

    Args:
        nodes: number of nodes.
        percent: share of the nodes that differ, from the others and from each other. Their cards have more
            memory, and their firmware has another version.
        seed: the seed of the pods and of the nodes that differ.
        sample: number of pods for kube-scheduler's plugin.
    """
    names = node_names(nodes)
    differing = set(random.Random(seed).sample(names, nodes * percent // 100))
    selector = f'{IN} && {OF_GPU}.firmware != "{_FIRMWARE[:-1]}{nodes + 1}"'
    specs = {profile: mig_claim(selector.format(profile)) for profile in SHARES}
    template = Template(mig_node(GPUS, firmware=_FIRMWARE))

    def slices() -> Iterator[bytes]:
        for number, node in enumerate(names, start=1):
            yield from template.fill(node, _changes(number) if node in differing else {})

    return Workload(
        name=f"MIG, {percent} % of {nodes} nodes differ",
        nodes=named_nodes(nodes),
        slices=slices,
        classes=gpu_classes(),
        pods=tuple(specs[profile] for profile in draw_profiles(seed, nodes * GPUS)),
        sample=sample,
    )


def _changes(number: int) -> dict[str, str]:
    """Return replacements of texts that give a node its own cards and firmware."""
    return {
        f'"{CARD_MEBIBYTES}Mi"': f'"{CARD_MEBIBYTES + number}Mi"',
        f'"{_FIRMWARE}"': f'"{_FIRMWARE[:-1]}{number}"',
    }
