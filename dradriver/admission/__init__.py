"""The validating admission webhook for opaque configuration; one webhook serves all drivers of a cluster.

Rule of this package: validation has no I/O (`configs` checks an object, `review` answers a request). It uses
the function that decodes configuration on the node. So if the webhook accepts a configuration, the node does
not reject it. The module with I/O (`server`) is small, and is imported only when it is needed. This package
never reads from the API server, changes an object, or logs the content of a configuration.

Modules:

- `configs`: checks the opaque configuration of one object.
- `classic`: checks the configuration of one object for controllers that allocate claims.
- `review`: answers one AdmissionReview.
- `server`: serves the webhook over HTTPS.
"""

from dradriver.admission.classic import find_classic_errors, read_claim
from dradriver.admission.configs import ConfigClasses, find_config_errors, known_configs

__all__ = ["ConfigClasses", "find_classic_errors", "find_config_errors", "known_configs", "read_claim"]
