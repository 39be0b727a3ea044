"""The kubelet's cache of device health (KEP-4680)."""

from dradriver.cluster.kubelet.claims.health import CachedHealth, DeviceReport, HealthCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_unreported_device_is_unknown() -> None:
    assert HealthCache().get("d", "p", "x") == CachedHealth("Unknown")


def test_a_report_is_valid_for_its_timeout() -> None:
    clock = Clock()
    cache = HealthCache(clock)
    cache.update("d", [DeviceReport("p", "x", "Healthy", "fine", 5.0)])
    clock.now = 5.0
    assert cache.get("d", "p", "x") == CachedHealth("Healthy", "fine")
    clock.now = 5.1
    assert cache.get("d", "p", "x") == CachedHealth("Unknown")


def test_the_default_timeout_is_thirty_seconds() -> None:
    clock = Clock()
    cache = HealthCache(clock)
    cache.update("d", [DeviceReport("p", "x", "Healthy")])
    clock.now = 30.5
    assert cache.get("d", "p", "x").health == "Unknown"


def test_only_changes_are_reported() -> None:
    cache = HealthCache()
    report = DeviceReport("p", "x", "Healthy", "", 600.0)
    assert cache.update("d", [report]) == {("p", "x")}
    assert cache.update("d", [report]) == set()
    assert cache.update("d", [report._replace(health="Unhealthy")]) == {("p", "x")}


def test_a_device_that_is_no_longer_reported_changes_when_it_is_overdue() -> None:
    clock = Clock()
    cache = HealthCache(clock)
    cache.update("d", [DeviceReport("p", "x", "Healthy", "", 5.0)])
    assert cache.update("d", []) == set()
    clock.now = 6.0
    assert cache.update("d", []) == {("p", "x")}


def test_the_devices_of_an_ended_stream_are_removed() -> None:
    cache = HealthCache()
    cache.update("d", [DeviceReport("p", "x", "Healthy", "", 600.0)])
    cache.clear("d")
    assert cache.get("d", "p", "x").health == "Unknown"
