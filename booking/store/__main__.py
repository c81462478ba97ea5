"""Copies of the booking database: ``python -m booking.store backup FILE``, ``... restore FILE``.

The database is the one of ``--database``, else of the booking server's setting. Taking a copy disturbs
nobody; stop the booking server before you restore.
"""

import argparse
import os
import sys
from pathlib import Path

from booking.errors import StoreError
from booking.settings import ServerSettings
from booking.store.backup import back_up, restore
from booking.store.opening import migrated
from cluster import names


def main() -> int:
    """Do what the words say; the exit code."""
    words = _words().parse_args()
    try:
        if words.what == "backup":
            head, rows = back_up(words.database, words.file)
            done = f"{rows} rows were copied to {words.file}"
        elif words.what == "restore":
            head, rows = restore(words.file, words.database, overwrite=words.overwrite)
            done = f"{rows} rows were restored from {words.file}"
        else:
            migrated(words.database, words.version)
            sys.stdout.write(f"The database has schema {words.version} now.\n")
            return 0
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{done}: store {head.store_id}, change {head.change}.\n")
    return 0


def _words() -> argparse.ArgumentParser:
    setting = names.setting("database")
    parser = argparse.ArgumentParser(prog="python -m booking.store", description=__doc__)
    parser.add_argument(
        "--database",
        default=os.environ.get(setting, ServerSettings().database),
        help=f"URL of the booking database; by default what {setting} says",
    )
    verbs = parser.add_subparsers(dest="what", required=True)
    backup = verbs.add_parser("backup", help="copy the database into a new file")
    backup.add_argument("file", type=Path)
    back = verbs.add_parser("restore", help="make a database of a copy")
    back.add_argument("file", type=Path)
    back.add_argument("--overwrite", action="store_true", help="what is in the database may be lost")
    schema = verbs.add_parser("schema", help="bring the database to another schema, for an older server")
    schema.add_argument("version", type=int)
    return parser


if __name__ == "__main__":
    sys.exit(main())
