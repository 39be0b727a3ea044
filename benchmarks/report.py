"""Samples by figure and peer, and a table of their medians with ratios of the first peer to the others."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles

__all__ = ["Report", "markdown", "percentile"]


def percentile(samples: Sequence[float], percent: int) -> float:
    """Return the value below which `percent` of the samples lie."""
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


class Report:
    """Figures with one value for each round. The table shows the median of the rounds."""

    def __init__(self, peers: Sequence[str]) -> None:
        self.peers = peers
        self._samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, figure: str, peer: str, value: float) -> None:
        """Record the value of one round."""
        self._samples[figure][peer].append(value)

    def table(self) -> str:
        """Return the medians as a Markdown table."""
        head = ["figure", *self.peers, *("ratio" for _ in self.peers[1:])]
        return markdown(head, (self._row(figure, by_peer) for figure, by_peer in self._samples.items()))

    def _row(self, figure: str, by_peer: dict[str, list[float]]) -> list[str]:
        medians = [median(by_peer[peer]) for peer in self.peers]
        ratios = (f"{medians[0] / other:.2f}" for other in medians[1:])
        return [figure, *(f"{value:.4g}" for value in medians), *ratios]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))
