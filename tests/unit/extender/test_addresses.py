"""Plain HTTP is possible only on this machine."""

import pytest

from dradriver.errors import UsageError
from dradriver.extender.addresses import check_listening
from dradriver.http_server.hosts import is_loopback

NONE = (None, None, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_plain_http_is_possible_on_this_machine(host: str) -> None:
    assert is_loopback(host)
    check_listening(host, NONE)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "scheduler"])
def test_plain_http_elsewhere_is_rejected_with_the_flags(host: str) -> None:
    with pytest.raises(
        UsageError, match=r"^--host .*Set --tls-cert-file, --tls-private-key-file, --client-ca-file"
    ):
        check_listening(host, NONE)
    check_listening(host, ("cert", "key", "ca"))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_incomplete_mutual_tls_is_rejected(host: str) -> None:
    with pytest.raises(UsageError, match=r"set all three or none; missing: --client-ca-file$"):
        check_listening(host, ("cert", "key", None))
