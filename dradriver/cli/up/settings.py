"""Values of the options of `dradriver up`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dradriver.cli.node_folders import default_data_folder
from dradriver.control.extended import ScoringStrategy

__all__ = ["UpSettings"]


@dataclass(frozen=True, slots=True)
class UpSettings:
    """Values of the options.

    Attributes:
        fresh: whether the state of earlier runs is removed first.
        reload: whether a driver is restarted when its code changes.
    """

    data: Path
    kubeconfig: Path | None
    nodes: int
    drivers: Sequence[str]
    feature_gates: str
    port: int
    runtime: str | None
    metrics_port: int
    binding_timeout: float
    budget: int
    order: str
    scoring: ScoringStrategy | None
    fresh: bool = False
    reload: bool = False

    @property
    def has_own_folder(self) -> bool:
        """Whether the data folder is not the default folder."""
        return self.data != default_data_folder()
