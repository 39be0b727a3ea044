"""Deadlines of binding conditions pass in virtual time."""

import pytest

from dradriver.control.queueing import waiting
from dradriver.control.scheduler import cluster_view
from dradriver.control.scheduler.binding import binding_cycle
from tests.properties.extender.virtual_time import VirtualDate


@pytest.fixture(autouse=True)
def virtual_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (waiting, cluster_view, binding_cycle):
        monkeypatch.setattr(module, "datetime", VirtualDate)
