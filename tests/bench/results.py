"""What a whole run leaves behind: bench/results.json, a list of rows, and bench/machine.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from devcluster.paths import CHECKOUT
from tests.bench.rows import Row

FOLDER: Final = CHECKOUT / "bench"
_RESULTS: Final = "results.json"
_MACHINE: Final = "machine.json"


def write(rows: Sequence[Row], machine: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Keep the numbers of a run and what they were measured on."""
    folder.mkdir(exist_ok=True)
    for name, content in ((_RESULTS, rows), (_MACHINE, machine)):
        text = msgspec.json.format(msgspec.json.encode(content), indent=1)
        (folder / name).write_bytes(text + b"\n")


def read_rows(folder: Path = FOLDER) -> list[Row]:
    """The rows of the last whole run.

    Raises:
        msgspec.ValidationError: the file is something else.
    """
    return msgspec.json.decode((folder / _RESULTS).read_bytes(), type=list[Row])


def read_machine(folder: Path = FOLDER) -> dict[str, str]:
    """What they were measured on."""
    return msgspec.json.decode((folder / _MACHINE).read_bytes(), type=dict[str, str])
