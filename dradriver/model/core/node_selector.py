"""Node selectors, and the rules by which they match nodes (`v1.NodeSelector`)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from dradriver.model.encoding.codec import Value
from dradriver.model.encoding.plain_input import convert_to_tuples

__all__ = ["NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm"]


class NodeSelectorRequirement(Value, frozen=True):
    """One comparison of a label or field of a node."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()

    if TYPE_CHECKING:
        # msgspec builds an __init__ with the types of the fields, but __post_init__ accepts any iterable.
        def __init__(
            self,
            key: str,
            operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
            values: Iterable[str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples(f"node selector requirement {self.key!r}", self, ("values",))

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
    """A list of requirements. A node must meet all of them. An empty term matches no node."""

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
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples("node selector term", self, ("match_expressions", "match_fields"))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node with this name and these labels meets every requirement."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {"metadata.name": name}
        return all(r.matches(labels) for r in self.match_expressions) and all(
            r.matches(fields) for r in self.match_fields
        )


class NodeSelector(Value, frozen=True):
    """A list of terms. A node is selected if at least one term matches."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    if TYPE_CHECKING:

        def __init__(self, node_selector_terms: Iterable[NodeSelectorTerm] = ...) -> None: ...

    def __post_init__(self) -> None:
        """Turn iterables into tuples.

        Raises:
            TypeError: a field is not a list. The message names the field.
        """
        convert_to_tuples("node selector", self, ("node_selector_terms",))

    @classmethod
    def for_node(cls, name: str) -> "NodeSelector":
        """Return a selector that matches exactly one node.

        The selector has the only form that Kubernetes' status authorization accepts.
        """
        # Tuples need no conversion.
        requirement = NodeSelectorRequirement("metadata.name", "In", (name,))
        return cls((NodeSelectorTerm(match_fields=(requirement,)),))

    @property
    def only_node(self) -> str:
        """Return the node that is selected, if the selector has the form of `for_node`; otherwise empty."""
        terms = self.node_selector_terms
        if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
            return ""
        field = terms[0].match_fields[0]
        exact = (field.key, field.operator, len(field.values)) == ("metadata.name", "In", 1)
        return field.values[0] if exact else ""

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node with this name and these labels is selected."""
        return any(term.matches(name, labels) for term in self.node_selector_terms)
