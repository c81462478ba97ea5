"""How a run reports on itself between the lines of the tests that it runs."""

import sys
from collections.abc import Iterable


def say(line: str) -> None:
    """One line of the run's own."""
    sys.stdout.write(f"== {line}\n")
    sys.stdout.flush()


def show(lines: Iterable[str]) -> None:
    """Lines as they are."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
