"""The contract passes for sound drivers, plain and asynchronous, with and without partitions."""

from dradriver.testing import DriverContract
from tests.unit.testing.drivers import Partitions, Plain


class TestPlain(DriverContract):
    driver_class = Plain


class TestPartitions(DriverContract):
    driver_class = Partitions
