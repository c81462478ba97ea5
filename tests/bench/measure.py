"""One measure: its rows, what it needs, and the function that runs it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.bench.lab import Lab
from tests.bench.rows import Kind, Row


@dataclass(frozen=True)
class Measure:
    """One measure."""

    name: str
    """Its name for ``--only``."""
    kinds: tuple[Kind, ...]
    """The kinds of all its rows."""
    run: Callable[[Lab], Iterable[Row]]
    on_cluster: bool = False
    """Whether it needs root and Kubernetes' binaries."""
    prepare: Callable[[], object] = lambda: None
    """Called before anything is measured, for what may take long or fail, such as a build."""
