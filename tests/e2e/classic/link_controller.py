"""A controller that allocates links of a fabric: its name is `LINK_CONTROLLER`.

`HARDWARE/NAME/free/NODE` has the number of free links of a node. `HARDWARE/NAME/immediate` has the node of
Immediate claims; without the file, they can be used on all nodes. `HARDWARE/NAME/claims/UID` has the node for
which a claim is allocated; it is empty for an Immediate claim. `HARDWARE/NAME/calls` has a line for each call.
If the file `HARDWARE/NAME/rival` exists, the next allocation fails because all links of the node are gone. It
fails after the controller whose name is in the file has allocated a claim.
Each claim gets one device of each plugin in `LINK_PLUGINS`, with a handle that names plugin and claim.
"""

import fcntl
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import dradriver as dra

NAME = os.environ.get("LINK_CONTROLLER", "controller.example.com")
PLUGINS = [each for each in os.environ.get("LINK_PLUGINS", "").split(",") if each]
ROOT = Path(os.environ.get("HARDWARE", "")) / NAME


class LinkController(dra.ControllerDriver):
    """Count links."""

    name = NAME
    check_nodes_seconds = 1.0

    def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult]:
        """Take a link for each claim."""
        _lose_links(node)
        with _fabric() as taken:
            self._note(f"allocate {' '.join(each.name for each in claims)} on {node}")
            new = [each for each in claims if each.uid not in taken]
            if node is not None and len(new) > _free(node, taken):
                raise dra.AllocationError(f"node {node} has no free link")
            for claim in new:
                (ROOT / "claims" / claim.uid).write_text(node or "")
        return {each.uid: self._result(each) for each in claims}

    def _result(self, claim: dra.PendingClaim) -> dra.ControllerAllocationResult:
        return dra.ControllerAllocationResult(
            devices=[
                dra.ControllerDevice(
                    request.name, plugin, f"{self.name}/rack-1", f"link-{claim.uid[:8]}-{index}"
                )
                for request in claim.requests
                for index, plugin in enumerate(PLUGINS)
            ],
            node_selector=_immediate_node() if not claim.pod_claim else None,
            handles={plugin: make_handle(plugin, claim.uid) for plugin in PLUGINS},
        )

    def deallocate(self, claim: dra.RecordedClaim) -> None:
        """Return the link."""
        with _fabric():
            self._note(f"deallocate {claim.name} on {claim.node}")
            (ROOT / "claims" / claim.uid).unlink(missing_ok=True)

    def unsuitable_nodes(
        self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Collection[str]]:
        """Return the nodes without enough free links."""
        with _fabric() as taken:
            bad = [node for node in nodes if _free(node, taken) < len(claims)]
            self._note(f"unsuitable {pod.name}: {' '.join(bad)}")
        return {each.uid: bad for each in claims}

    def allocations(self) -> Collection[str]:
        """Return the claims with a link."""
        return [each.name for each in (ROOT / "claims").iterdir()]

    def _note(self, line: str) -> None:
        with (ROOT / "calls").open("a") as calls:
            calls.write(f"{line}\n")


def _immediate_node() -> dra.NodeSelector | None:
    file = ROOT / "immediate"
    if not file.exists():
        return None
    name = dra.NodeSelectorRequirement("metadata.name", "In", [file.read_text()])
    return dra.NodeSelector([dra.NodeSelectorTerm(match_fields=[name])])


def _lose_links(node: str | None) -> None:
    file = ROOT / "rival"
    if not file.exists():
        return
    while not any((ROOT.parent / file.read_text() / "claims").iterdir()):
        time.sleep(0.05)
    with _fabric():
        (ROOT / "free" / str(node)).write_text("0")
    file.unlink()


def make_handle(plugin: str, uid: str) -> bytes:
    """Return the handle of a claim for a plugin, which takes several parts."""
    return f"{plugin} {uid} ".encode() * 200


@contextmanager
def _fabric() -> Iterator[dict[str, str]]:
    """Lock the fabric, and yield the node of each claim."""
    with (ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield {each.name: each.read_text() for each in (ROOT / "claims").iterdir()}


def _free(node: str, taken: Mapping[str, str]) -> int:
    file = ROOT / "free" / node
    return (int(file.read_text()) if file.exists() else 0) - list(taken.values()).count(node)


if __name__ == "__main__":
    dra.run(LinkController)
