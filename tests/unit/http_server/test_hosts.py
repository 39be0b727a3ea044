"""Only a loopback address keeps a server on its own machine."""

import pytest

from dradriver.http_server.hosts import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_is_reached_from_the_same_machine_only(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "scheduler"])
def test_other_hosts_are_reached_from_elsewhere(host: str) -> None:
    assert not is_loopback(host)
