"""Run the process of a driver: read the settings, start the driver, and return an exit code.

Rule of this package: it finds the driver, reads the settings, writes the log, stops gracefully at a signal, and
reports each error in one line. `dradriver.node` does the work of a node plugin. No slow import happens before a
driver runs, because `import dradriver` imports this package.

Modules:

- `entry`: `run()` and `launch()`, which run a driver until its process ends.
- `settings`: reads the settings from the command line and the environment.
- `catalog`: finds the installed drivers, by entry point.
- `serve`: connects to the API server, serves until a signal, and stops.
- `logs`: writes the log as text or JSON.
- `endpoints`: serves `/healthz`, `/readyz` and `/metrics`.
- `pools`: runs a `PoolDriver`.
- `controllers`: runs a `ControllerDriver`.
- `binding`: runs a `BindingDriver`.
- `binding_node`: runs a `NodeBindingDriver` on a node.
- `leading`: does the work of a driver only in the process that holds the Lease.
"""

from dradriver.runner.catalog import driver_names, load_any, load_driver
from dradriver.runner.entry import launch, run
from dradriver.runner.settings import OPTIONS, Option, Settings

__all__ = ["OPTIONS", "Option", "Settings", "driver_names", "launch", "load_any", "load_driver", "run"]
