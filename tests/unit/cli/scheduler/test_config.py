"""`dradriver scheduler config`."""

from collections.abc import Callable

import yaml
from click.testing import Result

from dradriver.extender.scheduler_config import KubeSchedulerSettings, build_config

Command = Callable[..., Result]


def test_it_writes_the_configuration_as_yaml(dradriver: Command) -> None:
    result = dradriver("scheduler", "config")
    assert result.exit_code == 0
    assert yaml.safe_load(result.output) == build_config(KubeSchedulerSettings(url="http://127.0.0.1:9444"))


def test_each_option_reaches_its_field(dradriver: Command) -> None:
    options = {
        "--url": "https://a:1", "--order": "packed", "--binding-timeout": "60", "--ca-file": "/ca",
        "--cert-file": "/cert", "--key-file": "/key", "--kubeconfig": "/kubeconfig", "--lease-name": "lease",
        "--lease-namespace": "ns", "--lease-seconds": "30", "--qps": "5", "--burst": "6",
    }  # fmt: skip
    arguments = [word for option in options.items() for word in option]
    names = ("--scheduler-name", "a", "--scheduler-name", "b", "--no-leader-elect")
    config = yaml.safe_load(dradriver("scheduler", "config", *arguments, *names).output)
    assert [each["schedulerName"] for each in config["profiles"]] == ["a", "b"]
    assert config["clientConnection"] == {"kubeconfig": "/kubeconfig", "qps": 5, "burst": 6}
    election = config["leaderElection"]
    assert (election["leaderElect"], election["leaseDuration"]) == (False, "30s")
    assert (election["resourceName"], election["resourceNamespace"]) == ("lease", "ns")
    decisions, binding = config["extenders"]
    assert (decisions["urlPrefix"], decisions["weight"]) == ("https://a:1", 1000)
    assert binding["httpTimeout"] == "90s"
    assert binding["tlsConfig"] == {"caFile": "/ca", "certFile": "/cert", "keyFile": "/key"}


def test_a_missing_authority_is_one_line(dradriver: Command) -> None:
    result = dradriver("scheduler", "config", "--url", "https://a:1")
    assert result.exit_code == 2
    assert result.output == (
        "Error: --url https://a:1: https needs --ca-file, --cert-file, --key-file, because both sides verify "
        "certificates\n"
    )
