"""``make profile``: a flame graph of the extender while it answers filters, 1,000 nodes and 8,000 pods.

Its stacks are stored next to the graph. To judge a change, make one graph before it and one after it: frames
are sorted by name, and the title says what an answer costs.
"""

import argparse
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench.bench_extender import NODES, SIZE, Extender, an_extender
from tests.bench.bench_filter import checked
from tests.bench.child import child
from tests.bench.flame import flame
from tests.bench.tracing import read, write

QUESTIONS: Final = 1_000
GRAPH: Final = Path("profile.svg")


def main() -> None:
    """Ask, then draw."""
    arguments = _arguments()
    with TemporaryDirectory() as folder:
        found = Path(folder) / "stacks"
        program = ("tests.bench.tracing", str(found), "extender")
        with (
            child("tests.bench.canned_server", str(NODES)) as port,
            an_extender(int(port), program) as extender,
        ):
            extender.await_first_answer()
            extender.signal(signal.SIGUSR1)
            _ask(extender)
        stacks = read(found)
    each = sum(stacks.values()) / QUESTIONS / 1e6
    title = f"The extender answers {QUESTIONS} filters, {SIZE}: {each:.2f} ms of processor time each"
    arguments.graph.write_text(flame(stacks, title=title))
    write(stacks, arguments.graph.with_suffix(".stacks"))
    print(f"{title}. The graph is {arguments.graph}.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.filter_profile", description=__doc__)
    parser.add_argument("graph", nargs="?", type=Path, default=GRAPH, help="an SVG file to write")
    return parser.parse_args()


def _ask(extender: Extender) -> None:
    for _ in range(QUESTIONS - 1):
        extender.scheduler.ask("/filter")
    checked(extender.scheduler.ask("/filter"), NODES)


if __name__ == "__main__":
    main()
