"""Finds the node of each host."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dradriver as dra
from dradriver_fabric_cxl.fabric import Host
from dradriver_fabric_cxl.names import SYSTEM_UUID

__all__ = ["HostMatches", "match_hosts"]


@dataclass(frozen=True, slots=True)
class HostMatches:
    """The nodes of hosts.

    Attributes:
        nodes: the node of each host by the host's ID. Hosts without a node are missing. A node may have several
            hosts.
        problems: messages for users: why hosts have no node although they should.
    """

    nodes: Mapping[str, str]
    problems: tuple[str, ...]


def match_hosts(
    hosts: Iterable[Host], reports: Mapping[str, dra.NodeReport], configured: Mapping[str, str]
) -> HostMatches:
    """Return the nodes of hosts: by the settings, else by the UUID of the computer.

    If two nodes report one UUID, the host has no node: its memory could reach the wrong computer.

    Args:
        hosts: hosts of the fabric.
        reports: reports of the nodes by node.
        configured: names of nodes by the ID of their host.
    """
    known = list(hosts)
    by_uuid = defaultdict(list)
    for node, report in sorted(reports.items()):
        if uuid := report.values.get(SYSTEM_UUID, "").lower():
            by_uuid[uuid].append(node)
    missing = sorted(configured.keys() - {each.id for each in known})
    problems = [
        f"host {each}: the fabric has no such host; the settings name it in `hosts`" for each in missing
    ]
    nodes, settled = {}, set()
    for host in known:
        found = [configured[host.id]] if host.id in configured else by_uuid.get(host.system.lower(), [])
        settled.update(found)
        if len(found) == 1:
            nodes[host.id] = found[0]
        elif found:
            problems.append(
                f"host {host.id}: nodes {', '.join(found)} report the same system UUID {host.system}: set the "
                "node of the host in `hosts`"
            )
    # A report with a problem may have no UUID yet, and its node gets no devices anyway.
    lonely = sorted(node for node, report in reports.items() if node not in settled and not report.problem)
    problems += [
        f"node {each}: no host of the fabric has its system UUID {reports[each].values.get(SYSTEM_UUID, '')}"
        for each in lonely
    ]
    return HostMatches(nodes, tuple(problems))
