"""Finds the nodes that node selectors match, in a cluster whose nodes change."""

from collections.abc import Iterable, Mapping, Set

from dradriver.model.core.node_selector import NodeSelector, NodeSelectorTerm

__all__ = ["NodeLabels"]


class NodeLabels:
    """The labels of nodes, with an index of the labels that selectors name."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._by_label: dict[str, dict[str, set[str]]] = {}
        self._selected: dict[NodeSelector, frozenset[str]] = {}

    @property
    def names(self) -> Set[str]:
        """Return the names of all nodes."""
        return self._labels.keys()

    def put(self, name: str, labels: Mapping[str, str]) -> bool:
        """Add a node, or change its labels. Return whether selectors may now match other nodes."""
        if self._labels.get(name) == labels:
            return False
        self.remove(name)
        self._labels[name] = labels
        for key, by_value in self._by_label.items():
            if key in labels:
                by_value.setdefault(labels[key], set()).add(name)
        return True

    def remove(self, name: str) -> None:
        """Remove a node. No-op if it is unknown."""
        labels = self._labels.pop(name, {})
        for key, by_value in self._by_label.items():
            if key in labels:
                by_value[labels[key]].discard(name)
        self._selected.clear()

    def select(self, selector: NodeSelector) -> frozenset[str]:
        """Return the names of the nodes that a selector matches."""
        found = self._selected.get(selector)
        if found is None:
            found = self._selected[selector] = frozenset(
                name for term in selector.node_selector_terms for name in self._match(term)
            )
        return found

    def _match(self, term: NodeSelectorTerm) -> Iterable[str]:
        return [name for name in self._candidates(term) if term.matches(name, self._labels[name])]

    def _candidates(self, term: NodeSelectorTerm) -> Iterable[str]:
        """Return the nodes that meet one requirement of the term that is easy to look up."""
        for requirement in term.match_expressions:
            if requirement.operator == "In":
                by_value = self._index(requirement.key)
                return [name for value in requirement.values for name in by_value.get(value, ())]
        for requirement in term.match_fields:
            if (requirement.key, requirement.operator) == ("metadata.name", "In"):
                return [name for name in requirement.values if name in self._labels]
        return self._labels

    def _index(self, key: str) -> Mapping[str, set[str]]:
        by_value = self._by_label.get(key)
        if by_value is None:
            by_value = self._by_label[key] = {}
            for name, labels in self._labels.items():
                if key in labels:
                    by_value.setdefault(labels[key], set()).add(name)
        return by_value
