"""The selector provider of every real use: CEL."""

from typing import cast

from dradriver.allocator.inventory import PooledDevice
from dradriver.allocator.selectors import Matcher
from dradriver.cel import SelectorDevice, compile_selector
from dradriver.cel.errors import EvaluationError

__all__ = ["CelSelectors"]

_MEMO_LIMIT = 64


class CelSelectors:
    """Selectors in CEL, as Kubernetes has them. Verdicts are kept on the devices from call to call."""

    def compile(self, expression: str) -> Matcher:
        """The compiled CEL expression.

        Raises:
            CompileError: the expression is not valid CEL for devices.
        """
        selector = compile_selector(expression)

        def matches(device: PooledDevice) -> bool:
            memo = device.memo
            verdict = memo.get(expression)
            if verdict is None:
                if len(memo) >= _MEMO_LIMIT:
                    memo.clear()
                try:
                    verdict = selector.matches(_view(device))
                except EvaluationError as error:
                    verdict = error
                memo[expression] = verdict
            if isinstance(verdict, EvaluationError):
                raise verdict
            return cast(bool, verdict)

        return matches


def _view(device: PooledDevice) -> SelectorDevice:
    published = device.device
    return SelectorDevice(
        device.id.driver,
        {name: attribute.value for name, attribute in published.attributes.items()},
        {name: capacity.value for name, capacity in published.capacity.items()},
        published.shareable,
    )
