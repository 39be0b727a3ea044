"""What users of a driver are told about their configuration."""

from collections.abc import Mapping

from dradriver.driver import Driver
from dradriver.driver.config import decode_config
from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import canonical

__all__ = ["config_mistakes"]


def config_mistakes(driver: type[Driver], parameters: Mapping[str, object]) -> list[str]:
    """Every mistake in opaque parameters, each with its field, as the webhook and a node name it.

    Args:
        driver: whose configuration it is.
        parameters: what stands under `opaque.parameters`, `apiVersion` and `kind` included.
    """
    try:
        decode_config(canonical(parameters), driver.configs, "opaque parameters", strict=True)
    except InvalidObjectError as error:
        return [str(problem) for problem in error.problems]
    return []
