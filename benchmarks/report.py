"""Samples by figure and peer, and the table of their medians with the ratio to the last peer."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles

__all__ = ["Report", "percentile"]


def percentile(samples: Sequence[float], percent: int) -> float:
    """The value below which `percent` of the samples lie."""
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


class Report:
    """One figure a round; the table shows the median of the rounds."""

    def __init__(self, peers: Sequence[str]) -> None:
        self.peers = peers
        self._samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, figure: str, peer: str, value: float) -> None:
        """Records the value of one round."""
        self._samples[figure][peer].append(value)

    def table(self) -> str:
        """The medians as a Markdown table."""
        head = ["figure", *self.peers, *(["ratio"] if len(self.peers) > 1 else [])]
        rows = [self._row(figure, by_peer) for figure, by_peer in self._samples.items()]
        return "\n".join(_line(cells) for cells in [head, ["---"] * len(head), *rows])

    def _row(self, figure: str, by_peer: dict[str, list[float]]) -> list[str]:
        medians = [median(by_peer[peer]) for peer in self.peers]
        ratio = [f"{medians[0] / medians[-1]:.2f}"] if len(medians) > 1 else []
        return [figure, *(f"{value:.4g}" for value in medians), *ratio]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
