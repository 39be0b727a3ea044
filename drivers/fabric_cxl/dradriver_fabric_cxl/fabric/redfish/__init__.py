"""A fabric behind a Redfish manager. It needs the extra `manager`.

- `fabric`: `RedfishFabric`, the fabric, and `open_redfish`, which connects to it.
- `credentials`: user and password from files.
- `session`: requests with a session that is renewed; errors of HTTP.
- `service`: resources, collections, ETags.
- `answers`, `resources`, `endpoints`, `tasks`: what answers and resources mean. Pure.
- `tree`: reads the resources of the fabric.
- `objects`: objects with tags, one request each.
- `events`: changes, by server-sent events or by looking.
"""

from dradriver_fabric_cxl.fabric.redfish.credentials import CredentialFiles
from dradriver_fabric_cxl.fabric.redfish.fabric import RedfishFabric, RedfishSettings, open_redfish

__all__ = ["CredentialFiles", "RedfishFabric", "RedfishSettings", "open_redfish"]
