"""The process of a driver: from a driver class and its settings to an exit code.

Law of this package: it finds the driver, reads the settings, keeps the log, turns signals into a graceful
stop and errors into one line each. What a node plugin does is `dradriver.node`'s. Nothing heavy is imported
before a driver is really run, because `import dradriver` passes through here.
"""

from dradriver.runner.catalog import driver_names, load_any, load_driver
from dradriver.runner.entry import launch, run
from dradriver.runner.settings import OPTIONS, Option, Settings

__all__ = ["OPTIONS", "Option", "Settings", "driver_names", "launch", "load_any", "load_driver", "run"]
