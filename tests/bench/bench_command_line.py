"""How much processor time one call of the command line takes, with an address and a token at hand.

The floor, in turns with it, is a Python that does nothing. The server is a process of its own.
"""

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from booking.cli.connection_settings import TOKEN, URL
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

CALLS: Final = 10
BOOKINGS: Final = 100
_COMMANDS: Final = {
    Kind(
        f"command-line-{slug}",
        f"processor time of one `kubectl gpu {' '.join(words)}`, mean",
        "ms",
        "`python -c pass`",
        target=Target(value=250),
    ): words
    for slug, words in (
        ("bookings", ("bookings",)),
        ("status", ("status",)),
        ("help", ("--help",)),
    )
}


def measure(_lab: Lab) -> Iterator[Row]:
    """Each command beside its floor."""
    with child("tests.bench.page_server", str(BOOKINGS)) as port:
        environment = {URL: f"http://127.0.0.1:{port}", TOKEN: "alice-token", "KUBECONFIG": "/nowhere"}
        for kind, words in _COMMANDS.items():
            ours, least = list[float](), list[float]()
            for _ in range(CALLS):
                ours.append(_processor_ms(["-m", "booking.cli", *words], environment))
                least.append(_processor_ms(["-c", "pass"], environment))
            yield kind.row(statistics.mean(ours), statistics.mean(least))


def _processor_ms(arguments: Sequence[str], environment: dict[str, str]) -> float:
    """Milliseconds of processor time that a Python with these arguments takes, as user and in the kernel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


MEASURE: Final = Measure("command-line", tuple(_COMMANDS), measure)
