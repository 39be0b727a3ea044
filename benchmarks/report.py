"""Samples by figure and peer, and a table of their medians with ratios of our peers to the others."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles

__all__ = ["Report", "markdown", "markdown_row", "percentile"]


def percentile(samples: Sequence[float], percent: int) -> float:
    """Return the value below which `percent` of the samples lie."""
    if len(samples) == 1:
        return samples[0]
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


class Report:
    """Figures with one value for each round. The table shows the median of the rounds.

    Args:
        ours: titles of the measured programs that are compared.
        others: titles of the programs that they are compared with.
    """

    def __init__(self, ours: Sequence[str], others: Sequence[str]) -> None:
        self._peers = (*ours, *others)
        self._ratios = [(own, other) for other in others for own in ours]
        self._samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, figure: str, peer: str, value: float) -> None:
        """Record the value of one round."""
        self._samples[figure][peer].append(value)

    def table(self) -> str:
        """Return the medians as a Markdown table."""
        head = ["figure", *self._peers, *(f"{ours} / {other}" for ours, other in self._ratios)]
        return markdown(head, (self._row(figure, by_peer) for figure, by_peer in self._samples.items()))

    def _row(self, figure: str, by_peer: dict[str, list[float]]) -> list[str]:
        medians = {peer: median(by_peer[peer]) for peer in self._peers}
        ratios = (f"{medians[ours] / medians[other]:.2f}" for ours, other in self._ratios)
        return [figure, *(f"{value:.4g}" for value in medians.values()), *ratios]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(map(markdown_row, (head, ["---"] * len(head), *rows)))


def markdown_row(cells: Sequence[str]) -> str:
    """Return one row of a Markdown table."""
    return f"| {' | '.join(cells)} |"
