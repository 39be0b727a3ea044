"""What is special about each kind: what the server sets, keeps, drops and refuses when an object is written.

A strategy prepares an object in place (it is a fresh copy) and then names what is wrong with it.
`strategy_of` finds the strategy of a resource; kinds without one of their own have the base class.
"""

from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.strategies.base import Context, Strategy
from dradriver.cluster.apiserver.strategies.core import (
    ConfigMapStrategy,
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    SecretStrategy,
)
from dradriver.cluster.apiserver.strategies.custom import CustomStrategy, DefinitionStrategy
from dradriver.cluster.apiserver.strategies.devices import (
    ClaimStrategy,
    ClassStrategy,
    SliceStrategy,
    TaintRuleStrategy,
    TemplateStrategy,
)
from dradriver.cluster.apiserver.strategies.pods import PodStrategy
from dradriver.cluster.apiserver.strategies.quotas import QuotaStrategy

__all__ = ["Context", "Strategy", "strategy_of"]

_STRATEGIES: dict[str, Strategy] = {
    "Namespace": NamespaceStrategy(),
    "Node": NodeStrategy(),
    "Pod": PodStrategy(),
    "Event": EventStrategy(),
    "Secret": SecretStrategy(),
    "ConfigMap": ConfigMapStrategy(),
    "Lease": LeaseStrategy(),
    "ResourceQuota": QuotaStrategy(),
    "DeviceClass": ClassStrategy(),
    "ResourceClaim": ClaimStrategy(),
    "ResourceClaimTemplate": TemplateStrategy(),
    "ResourceSlice": SliceStrategy(),
    "DeviceTaintRule": TaintRuleStrategy(),
    "CustomResourceDefinition": DefinitionStrategy(),
}
_BASE = Strategy()
_CUSTOM = {with_status: CustomStrategy(with_status=with_status) for with_status in (True, False)}


def strategy_of(resource: ServedResource) -> Strategy:
    """The strategy of a resource."""
    if resource.schema is None:
        return _CUSTOM["status" in resource.subresources]
    return _STRATEGIES.get(resource.kind, _BASE)
