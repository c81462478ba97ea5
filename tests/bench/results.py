"""What a whole run stores: bench/results.json, a list of rows, and bench/machine.json."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from devcluster.paths import CHECKOUT
from tests.bench.machine import differences
from tests.bench.rows import Row, merged

FOLDER: Final = CHECKOUT / "bench"
_RESULTS: Final = "results.json"
_MACHINE: Final = "machine.json"


class OtherMachineError(Exception):
    """The kept rows were measured on another machine; the text is a message."""


def write(rows: Sequence[Row], machine: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Store the numbers of a whole run and the description of its machine."""
    folder.mkdir(exist_ok=True)
    _write(folder / _RESULTS, rows)
    _write(folder / _MACHINE, machine)


def write_merged(rows: Sequence[Row], order: Iterable[str], folder: Path = FOLDER) -> None:
    """Store new rows with those of the last whole run, whose description of the machine stays.

    Args:
        rows: measured on the machine of the description (``check_machine``).
        order: names of all existing rows.
        folder: where they are stored.
    """
    _write(folder / _RESULTS, merged(read_rows(folder), rows, order))


def check_machine(machine: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Check that the kept rows were measured on such a machine: one description applies to all of them.

    Raises:
        OtherMachineError: they were not; says what differs, and what to do.
    """
    if others := differences(read_machine(folder), machine):
        raise OtherMachineError(
            f"--keep would mix rows of this machine with those of another one: {'; '.join(others)}."
            " Leave --keep out, or measure everything here: make bench."
        )


def _write(path: Path, content: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def read_rows(folder: Path = FOLDER) -> list[Row]:
    """The rows of the last whole run.

    Raises:
        msgspec.ValidationError: the file is something else.
    """
    return msgspec.json.decode((folder / _RESULTS).read_bytes(), type=list[Row])


def read_machine(folder: Path = FOLDER) -> dict[str, str]:
    """The machine on which they were measured."""
    return msgspec.json.decode((folder / _MACHINE).read_bytes(), type=dict[str, str])
