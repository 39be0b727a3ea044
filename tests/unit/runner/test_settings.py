"""Settings come from the command line, else the environment, else the kubelet's usual paths."""

from pathlib import Path

import pytest

from dradriver.errors import UsageError
from dradriver.runner import OPTIONS, Settings


def test_the_defaults_are_those_of_the_kubelet() -> None:
    settings = Settings.read({}, {"NODE_NAME": "node-1"})
    assert settings.plugins_dir == Path("/var/lib/kubelet/plugins")
    assert settings.registry_dir == Path("/var/lib/kubelet/plugins_registry")
    assert settings.cdi_dir == Path("/var/run/cdi")
    assert settings.kubeconfig is None
    assert settings.metrics_port == 0


def test_every_setting_can_come_from_the_environment() -> None:
    for option in OPTIONS:
        assert option.environment[0] == "DRADRIVER_" + option.name.upper()


def test_the_command_line_wins_over_the_environment() -> None:
    environment = {"DRADRIVER_NODE_NAME": "from-environment"}
    assert Settings.read({"node_name": "from-flag"}, environment).node_name == "from-flag"


def test_the_own_variable_wins_over_the_common_one() -> None:
    environment = {"DRADRIVER_NODE_NAME": "ours", "NODE_NAME": "common"}
    assert Settings.read({}, environment).node_name == "ours"


def test_an_empty_variable_is_ignored() -> None:
    assert Settings.read({}, {"DRADRIVER_NODE_NAME": "", "NODE_NAME": "common"}).node_name == "common"


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        ({"node_name": "Node_1"}, {}, "--node-name: 'Node_1' is not a DNS subdomain"),
        ({"metrics_port": "http"}, {}, "--metrics-port: 'http' must be a number"),
        ({"metrics_port": "70000"}, {}, "between 0 and 65535"),
        ({"simulate": "maybe"}, {}, "--simulate: 'maybe' must be one of never, auto, always"),
        ({}, {"DRADRIVER_LOG_LEVEL": "loud"}, "DRADRIVER_LOG_LEVEL: 'loud' must be one of debug"),
    ],
)
def test_an_invalid_value_names_its_source(
    given: dict[str, str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Settings.read({"node_name": "node-1"} | given, environment)
    assert message in str(caught.value)
