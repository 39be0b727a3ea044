"""The nearest quantities that Kubernetes reads."""

import pytest

from dradriver.cli.validation.corrections import is_quantity, nearest_quantities


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("40GB", ["40G", "40Gi"]),
        ("40gb", ["40G", "40Gi"]),
        ("40g", ["40G", "40Gi"]),
        ("40GiB", ["40Gi"]),
        ("40gi", ["40Gi"]),
        ("1.5 TB", ["1.5T", "1.5Ti"]),
        ("16 Gi", ["16Gi"]),
        ("1K", ["1k", "1Ki"]),
        ("5 bytes", ["5"]),
        ("64 MiBytes", ["64Mi"]),
        ("2 kilo", ["2k", "2Ki"]),
        ("1,5Gi", ["1.5Gi"]),
        ("1,000,000", ["1000000"]),
        ("10_000Mi", ["10000Mi"]),
        ("-1GB", ["-1G", "-1Gi"]),
        ("many", []),
        ("40 cores", []),
        ("1.2.3", []),
        ("", []),
    ],
)
def test_nearest_quantities(text: str, nearest: list[str]) -> None:
    assert not is_quantity(text)
    assert nearest_quantities(text) == nearest
    assert all(map(is_quantity, nearest))
