"""Copies of the booking database: ``python -m booking.server.store backup FILE``, ``... restore FILE``.

FILE may be ``-``: the copy goes to the standard output, or comes from the standard input.
The database is the one of ``--database``, else of the booking server's setting. Taking a copy disturbs
nobody; stop the booking server before you restore.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from booking.server.errors import StoreError
from booking.server.settings import ServerSettings
from booking.server.store.backup import back_up, restore
from booking.server.store.dump_file import Head
from booking.server.store.opening import migrated
from booking.wording import counted
from cluster import names

PIPE: Final = Path("-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, by default those of the process; the exit code."""
    words = _words().parse_args(arguments)
    try:
        if words.what == "backup":
            head, rows = _back_up(words)
            done = f"Copied {counted(rows, 'row')} to {_named(words.file, 'the standard output')}"
        elif words.what == "restore":
            head, rows = _restore(words)
            done = f"Restored {counted(rows, 'row')} from {_named(words.file, 'the standard input')}"
        else:
            migrated(words.database, words.version)
            sys.stdout.write(f"The database has schema {words.version} now.\n")
            return 0
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # Standard output is reserved for a copy that is written to it.
    stream = sys.stderr if words.what == "backup" and words.file == PIPE else sys.stdout
    stream.write(f"{done}: store {head.store_id}, change {head.change}.\n")
    return 0


def _back_up(words: argparse.Namespace) -> tuple[Head, int]:
    if words.file != PIPE:
        return back_up(words.database, words.file)
    if sys.stdout.isatty():
        raise StoreError(
            "A copy is not text: no terminal can show it. Send it into a file or another program."
        )
    return back_up(words.database, sys.stdout.buffer)


def _restore(words: argparse.Namespace) -> tuple[Head, int]:
    if words.file != PIPE:
        return restore(words.file, words.database, overwrite=words.overwrite)
    # The copy is checked completely before any of it is written.
    with tempfile.NamedTemporaryFile(prefix="standard-input-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        try:
            return restore(Path(copy.name), words.database, overwrite=words.overwrite)
        except StoreError as error:
            raise StoreError(str(error).replace(copy.name, "The standard input")) from error


def _named(file: Path, pipe: str) -> str:
    return pipe if file == PIPE else str(file)


def _words() -> argparse.ArgumentParser:
    setting = names.setting("database")
    parser = argparse.ArgumentParser(prog="python -m booking.server.store", description=__doc__)
    parser.add_argument(
        "--database",
        default=os.environ.get(setting, ServerSettings().database),
        help=f"URL of the booking database; by default what {setting} says",
    )
    verbs = parser.add_subparsers(dest="what", required=True)
    backup = verbs.add_parser("backup", help="copy the database into a new file")
    backup.add_argument("file", type=Path, help="that does not exist; - for the standard output")
    back = verbs.add_parser("restore", help="make a database of a copy")
    back.add_argument("file", type=Path, help="of a backup; - for the standard input")
    back.add_argument("--overwrite", action="store_true", help="what is in the database may be lost")
    schema = verbs.add_parser("schema", help="bring the database to another schema, for an older server")
    schema.add_argument("version", type=int)
    return parser


if __name__ == "__main__":
    sys.exit(main())
