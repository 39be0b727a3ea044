"""Node selectors and what they match (`v1.NodeSelector`)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import tuples

__all__ = ["NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm"]


class NodeSelectorRequirement(Value, frozen=True):
    """One comparison of a label or field of a node."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()

    if TYPE_CHECKING:
        # msgspec builds __init__ from the fields; __post_init__ accepts any iterable.
        def __init__(
            self,
            key: str,
            operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
            values: Iterable[str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        tuples(f"node selector requirement {self.key!r}", self, ("values",))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels (or fields) of a node meet the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


class NodeSelectorTerm(Value, frozen=True, kw_only=True):
    """Requirements that must all hold; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            match_expressions: Iterable[NodeSelectorRequirement] = ...,
            match_fields: Iterable[NodeSelectorRequirement] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        tuples("node selector term", self, ("match_expressions", "match_fields"))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node with that name and labels meets every requirement."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {"metadata.name": name}
        return all(r.matches(labels) for r in self.match_expressions) and all(
            r.matches(fields) for r in self.match_fields
        )


class NodeSelector(Value, frozen=True):
    """A list of terms; at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    if TYPE_CHECKING:

        def __init__(self, node_selector_terms: Iterable[NodeSelectorTerm] = ...) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list; the message names it.
        """
        tuples("node selector", self, ("node_selector_terms",))

    @classmethod
    def for_node(cls, name: str) -> "NodeSelector":
        """Return a selector of exactly one node.

        It has the only form that Kubernetes' status authorization accepts.
        """
        return cls([NodeSelectorTerm(match_fields=[NodeSelectorRequirement("metadata.name", "In", [name])])])

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node with that name and labels is selected."""
        return any(term.matches(name, labels) for term in self.node_selector_terms)
