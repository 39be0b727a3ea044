"""Shows the devices of a cluster to people while they change.

Law of this package: it only reads from the API server. `dradriver.overview` decides what is shown.

- `live`: keeps an overview of a running cluster current.
"""

from dradriver.monitor.live import LiveOverview

__all__ = ["LiveOverview"]
