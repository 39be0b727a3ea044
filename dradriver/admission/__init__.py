"""The validating admission webhook for opaque configuration, for all drivers of a cluster at once.

Law of this package: what is right and wrong is pure (`configs` of an object, `review` of a request) and is
decided by the very function that decodes a configuration on the node, so that what passes here is never refused
there. I/O (`server`, `certificate`) is thin, and imported by who needs it. Never here: reading from the API
server, changing an object, or the content of a configuration in a log.
"""

from dradriver.admission.configs import Known, known_configs, mistakes_in

__all__ = ["Known", "known_configs", "mistakes_in"]
