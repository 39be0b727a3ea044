"""The behavior of each kind when an object is written: fields that the server sets, keeps, drops and rejects.

A strategy prepares an object in place (it is a fresh copy) and then reports its faults. `strategy_of` finds the
strategy of a resource. Kinds without their own strategy have the base class.

| module | contents |
|---|---|
| `base` | the base class |
| `core` | namespaces, nodes, events, leases, config maps, secrets |
| `pods` | pods |
| `devices` | the kinds of `resource.k8s.io` |
| `dropping` | fields behind feature gates |
| `custom` | custom resource definitions and their objects |
| `quotas` | resource quotas |
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
    """Return the strategy of a resource."""
    if resource.schema is None:
        return _CUSTOM["status" in resource.subresources]
    return _STRATEGIES.get(resource.kind, _BASE)
