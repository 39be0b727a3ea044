"""Serves a read-only page with the devices of a cluster.

Law of this package: it answers GET and HEAD only, sets no cookies, and writes nothing but reviews of the tokens
and rights of its visitors. `dradriver.overview` decides what is shown.

- `server`: the HTTP server.
- `streams`: sends an overview and its changes to visitors.
- `page_values`: the values that the page draws, as JSON.
- `visibility`: hides what a visitor may not list.
- `visitors`: asks the API server who a visitor is, and what the visitor may list.
- `request_rules`: decides which requests are answered, and the headers of the answers.
- `page`: the files that the browser loads.
"""

from dradriver.monitor.dashboard.server import Dashboard, Explain
from dradriver.monitor.dashboard.visitors import KubeVisitors, OwnRights

__all__ = ["Dashboard", "Explain", "KubeVisitors", "OwnRights"]
