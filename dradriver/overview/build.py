"""Computes the overview of given objects at once."""

from collections.abc import Iterable
from datetime import datetime

from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule
from dradriver.overview.tracker import OverviewTracker
from dradriver.overview.values import Overview

__all__ = ["build_overview"]


def build_overview(
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    rules: Iterable[DeviceTaintRule],
    now: datetime,
) -> Overview:
    """Return the overview of the objects of a cluster.

    Args:
        slices: all ResourceSlices as published.
        claims: all ResourceClaims.
        pods: all Pods.
        nodes: all Nodes. If there is none, the nodes that slices name count as ready.
        rules: all DeviceTaintRules.
        now: the present time.
    """
    tracker = OverviewTracker()
    for rule in rules:
        tracker.apply_rule(None, rule)
    for node in nodes:
        tracker.apply_node(None, node)
    for source in slices:
        tracker.apply_slice(None, source)
    for claim in claims:
        tracker.apply_claim(None, claim)
    for pod in pods:
        tracker.apply_pod(None, pod)
    tracker.update(now)
    return tracker.overview
