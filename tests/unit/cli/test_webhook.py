"""`dradriver webhook`, and the same checks by `dradriver validate --driver`."""

import json
import signal
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from click.testing import Result

from tests.unit.admission.certificates import make_pair
from tests.unit.admission.leds import GOOD, WRONG, claim, led, review_of
from tests.unit.admission.process import DRIVER, webhook_process

Command = Callable[..., Result]


async def test_it_serves_until_a_signal(tmp_path: Path) -> None:
    pair = make_pair("webhook")
    trust = ssl.create_default_context(cadata=pair.certificate)
    async with (
        webhook_process(tmp_path, pair, "--log-format", "json") as (process, port),
        aiohttp.ClientSession(f"https://127.0.0.1:{port}") as session,
    ):
        url, body = "/validate-resource-claim-parameters", review_of(claim(WRONG))
        async with session.post(url, data=body, ssl=trust) as response:
            assert (await response.json())["response"]["allowed"] is False
        process.send_signal(signal.SIGTERM)
        _, output = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert (
        json.loads(output.splitlines()[0])["message"] == "CREATE ResourceClaim default/desk is denied: 1 error"
    )


def test_a_missing_certificate_is_one_line(dradriver: Command, tmp_path: Path) -> None:
    files = ("--tls-cert-file", str(tmp_path / "a"), "--tls-private-key-file", str(tmp_path / "b"))
    result = dradriver("webhook", "--driver", DRIVER, *files)
    assert result.exit_code == 2
    assert (
        f"Error: --tls-cert-file, --tls-private-key-file: {tmp_path}/a: No such file or directory"
        in result.output
    )


@pytest.mark.parametrize(
    ("name", "message"), [("nothing", "driver 'nothing' is not installed"), ("a:B", "imported")]
)
def test_a_missing_driver_is_one_line(dradriver: Command, name: str, message: str) -> None:
    result = dradriver("webhook", "--driver", name, "--tls-cert-file", "a", "--tls-private-key-file", "b")
    assert result.exit_code == 1
    assert message in result.output


def validated(dradriver: Command, folder: Path, body: object, *options: str) -> Result:
    (folder / "claim.json").write_text(json.dumps(body))
    return dradriver("validate", "-f", str(folder / "claim.json"), *options)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_validate_reports_the_same_as_the_webhook(dradriver: Command, tmp_path: Path, version: str) -> None:
    body = claim(GOOD, WRONG, led(colour="red"), version=version)
    result = validated(dradriver, tmp_path, body, "--driver", DRIVER)
    assert result.exit_code == 1
    field = "ResourceClaim desk: spec.devices.config[{}].opaque.parameters"
    assert f"{field.format(1)}: brightness must be between 0 and 100\n" in result.output
    assert f"{field.format(2)}.colour: LedConfig has no such field\n" in result.output
    assert "2 error(s)" in result.output


def test_validate_checks_no_configuration_without_a_driver(dradriver: Command, tmp_path: Path) -> None:
    assert validated(dradriver, tmp_path, claim(WRONG)).exit_code == 0
