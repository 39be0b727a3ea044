"""The process of a driver: from a driver class and its settings to an exit code.

Law of this package: it finds the driver, reads the settings, writes the log, turns signals into a graceful
stop, and turns errors into one line each. The work of a node plugin is in `dradriver.node`. Nothing heavy is
imported before a driver runs, because `import dradriver` imports this package.

Modules:

- `entry`: `run()` and `launch()`: start a driver and return an exit code.
- `settings`: the table of settings, from the command line and the environment.
- `catalog`: the installed drivers, by entry point.
- `serve`: the life of the process: connect, serve until a signal, stop.
- `logs`: the log, as text or JSON.
- `endpoints`: `/healthz`, `/readyz` and `/metrics`.
- `pools`: runs a `PoolDriver`.
- `binding`: runs a `BindingDriver`.
- `binding_node`: runs a `NodeBindingDriver` on a node.
- `leading`: runs only the process that holds the Lease.
"""

from dradriver.runner.catalog import driver_names, load_any, load_driver
from dradriver.runner.entry import launch, run
from dradriver.runner.settings import OPTIONS, Option, Settings

__all__ = ["OPTIONS", "Option", "Settings", "driver_names", "launch", "load_any", "load_driver", "run"]
