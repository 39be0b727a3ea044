"""Return the errors in a driver's configuration, as users see them."""

from collections.abc import Mapping

from dradriver.driver import Driver
from dradriver.driver.configuration.config import decode_config
from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import canonical

__all__ = ["list_config_errors"]


def list_config_errors(driver: type[Driver], parameters: Mapping[str, object]) -> list[str]:
    """Return every error in opaque parameters, with its field, as the webhook and the node report it.

    Args:
        driver: the driver class that declares the configuration.
        parameters: the content of `opaque.parameters`, with `apiVersion` and `kind`.
    """
    try:
        decode_config(canonical(parameters), driver.configs, "opaque parameters", strict=True)
    except InvalidObjectError as error:
        return [str(problem) for problem in error.problems]
    return []
