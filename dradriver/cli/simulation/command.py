"""The command itself."""

from collections.abc import Sequence

import click

from dradriver.allocator import Features
from dradriver.cli.errors import FAILED
from dradriver.cli.files import file_options, read_sound_files
from dradriver.cli.output import document, output_option
from dradriver.cli.simulation.outcome import Outcome, outcomes
from dradriver.cli.world import read_world
from dradriver.model.codec import builtins

__all__ = ["simulate"]


@click.command(short_help="Show what would be allocated, or why not.")
@file_options()
@click.option(
    "--feature-gates", default="", help="Kubernetes feature gates, as A=true,B=false.  [default: 1.37's]"
)
@output_option
@click.pass_context
def simulate(ctx: click.Context, files: Sequence[str], feature_gates: str, output: str) -> None:
    """Show what would be allocated to pods and claims, or why not, without a cluster.

    The files hold ResourceSlices, DeviceClasses, ResourceClaims, ResourceClaimTemplates, Pods and Nodes. Pods
    are tried in their order, then claims that no pod uses, each on the nodes in their order; an allocation
    holds for all that follow. Without Node objects the nodes are those that slices name. Exits with 1 when
    something does not fit.
    """
    found = list(outcomes(read_world(read_sound_files(files)), _features(feature_gates)))
    if output == "table":
        for outcome in found:
            _say(outcome)
    else:
        document(
            {"apiVersion": "dradriver/v1", "kind": "Simulation", "items": [_item(o) for o in found]}, output
        )
    if not all(outcome.node for outcome in found):
        ctx.exit(FAILED)


def _features(gates: str) -> Features:
    if not gates:
        return Features()
    from dradriver.cluster.apiserver.gates import FeatureGates  # noqa: PLC0415 - slow to import

    return Features.of_gates(FeatureGates.parse(gates).settings)


def _say(outcome: Outcome) -> None:
    if not outcome.node:
        click.echo(f"{outcome.subject}: fits nowhere")
        for refusal in outcome.refusals:
            click.echo("  " + refusal.replace("\n", "\n  "))
        return
    click.echo(f"{outcome.subject}: fits on node {outcome.node}")
    for claim in outcome.claims:
        for result in claim.results:
            click.echo(f"  claim {claim.ref}, request {result.request}: {result.id}")


def _item(outcome: Outcome) -> dict[str, object]:
    return {
        "subject": outcome.subject,
        "node": outcome.node or None,
        "claims": [
            {
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "allocation": builtins(claim.allocation) if claim.allocation else None,
            }
            for claim in outcome.claims
        ],
        "reasons": outcome.refusals,
    }
