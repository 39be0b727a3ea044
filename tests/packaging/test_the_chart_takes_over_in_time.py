"""Another pod schedules within 20 s after a failure, with the settings of the rendered chart.

docs/scheduler.md explains the steps.
"""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dradriver.cli.scheduler.run import run
from dradriver.model.core.lease import LeaseTiming
from tests.e2e.chart.helm import Helm, find_manifest, set_values

pytestmark = pytest.mark.e2e

MOST: Final = 20.0
JITTER: Final = 2.2
"""client-go waits for the retry period and up to 120 % more (`JitterFactor`)."""
RELEASE: Final = 1.0
CANCEL: Final = 1.0
FOLLOW: Final = 1.0
READ: Final = 2.0
VALUES: Final = {
    "image.repository": "registry.example.com/d",
    "scheduler.enabled": True,
    "scheduler.kubeScheduler.image.repository": "registry.example.com/kube-scheduler",
}


def seconds(duration: str) -> float:
    assert duration.endswith("s")
    return float(duration.removesuffix("s"))


def takeovers(helm: Helm) -> dict[str, float]:
    """Return the longest time until another pod schedules, by what fails."""
    manifests = helm.template(*set_values(VALUES))
    config: dict[str, Any] = yaml.safe_load(find_manifest(manifests, "ConfigMap")["data"]["config.yaml"])
    election = config["leaderElection"]
    extender, kube_scheduler = find_manifest(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    options = run.make_context("run", extender["args"][2:]).params
    own = LeaseTiming(options["lease_seconds"])
    probe = kube_scheduler["livenessProbe"]
    assert own.duration <= seconds(election["leaseDuration"]), "both Leases of a dead pod expire side by side"
    noticed = probe["failureThreshold"] * probe["periodSeconds"] + probe["timeoutSeconds"]
    attempt = JITTER * seconds(election["retryPeriod"])
    expired = attempt + seconds(election["leaseDuration"]) + attempt
    led = FOLLOW + own.retry_period + READ
    return {
        "the pod dies": expired + led,
        "kube-scheduler is paused": expired + CANCEL + led,
        "the extender is paused": noticed + RELEASE + attempt + led,
    }


def test_each_takeover_takes_less_than_20_seconds(helm: Helm) -> None:
    found = takeovers(helm)
    assert max(found.values()) < MOST, found


def test_the_documentation_has_the_sums_of_the_chart(helm: Helm) -> None:
    text = (Path(__file__).parents[2] / "docs" / "scheduler.md").read_text(encoding="utf-8")
    sums = " | ".join(f"**{each:.2f}**" for each in takeovers(helm).values())
    assert f"| **sum** | {sums} | |" in text


def test_the_leader_of_kube_scheduler_can_renew_its_lease(helm: Helm) -> None:
    """client-go requires this order of the durations (`NewLeaderElector`)."""
    manifests = helm.template(*set_values(VALUES))
    config = yaml.safe_load(find_manifest(manifests, "ConfigMap")["data"]["config.yaml"])
    election = config["leaderElection"]
    lease, deadline, retry = (
        seconds(election[name]) for name in ("leaseDuration", "renewDeadline", "retryPeriod")
    )
    assert lease > deadline > JITTER * retry
