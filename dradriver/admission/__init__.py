"""The validating admission webhook for opaque configuration, for all drivers of a cluster at once.

Law of this package: validation is pure (`configs` of an object, `review` of a request). It uses the function
that decodes a configuration on the node, so a configuration that is accepted here is never rejected there. I/O
(`server`, `certificate`) is thin, and is imported only where it is needed. This package never reads from the
API server, changes an object, or logs the content of a configuration.

Modules:

- `configs`: checks the opaque configuration of one object.
- `review`: answers one AdmissionReview.
- `server`: the HTTPS server.
- `certificate`: the server's certificate, reloaded when its files change.
"""

from dradriver.admission.configs import Known, known_configs, mistakes_in

__all__ = ["Known", "known_configs", "mistakes_in"]
