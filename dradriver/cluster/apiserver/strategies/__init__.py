"""The behavior of each kind when an object is written: fields that the server sets, keeps, drops and rejects.

A strategy first changes an object, which is a fresh copy, and then reports the object's errors. `strategy_of`
finds the strategy of a resource. The strategy of all other kinds is the base class.

| module | contents |
|---|---|
| `base` | the base class |
| `core` | namespaces, nodes, events, leases, config maps, secrets |
| `pods` | pods |
| `devices` | the kinds of `resource.k8s.io` |
| `dropping` | fields behind feature gates |
| `custom` | custom resource definitions and their objects |
| `quotas` | resource quotas |
| `budgets` | pod disruption budgets |
"""

from dradriver.cluster.apiserver.kinds.resources import ServedResource
from dradriver.cluster.apiserver.strategies.base import Context, Strategy
from dradriver.cluster.apiserver.strategies.budgets import BudgetStrategy
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
    "PodDisruptionBudget": BudgetStrategy(),
    "DeviceClass": ClassStrategy(),
    "ResourceClaim": ClaimStrategy(),
    "ResourceClaimTemplate": TemplateStrategy(),
    "ResourceSlice": SliceStrategy(),
    "DeviceTaintRule": TaintRuleStrategy(),
    "CustomResourceDefinition": DefinitionStrategy(),
}
_BASE = Strategy()


def strategy_of(resource: ServedResource) -> Strategy:
    """Return the strategy of a resource.

    Args:
        resource: a served resource. The strategy of a custom resource depends on its definition.
    """
    if resource.schema is None:
        return CustomStrategy(resource)
    return _STRATEGIES.get(resource.kind, _BASE)
