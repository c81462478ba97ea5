"""One thing that is measured by itself: its rows, what it needs, and how it is done."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.bench.lab import Lab
from tests.bench.rows import Kind, Row


@dataclass(frozen=True)
class Measure:
    """One measure."""

    name: str
    """For ``--only``."""
    kinds: tuple[Kind, ...]
    """Of all rows that it gives."""
    run: Callable[[Lab], Iterable[Row]]
    on_cluster: bool = False
    """Whether it needs root and Kubernetes' binaries."""
    prepare: Callable[[], object] = lambda: None
    """Called before anything is measured: what may take long or fail, such as a build."""
