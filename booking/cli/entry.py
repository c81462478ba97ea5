"""The programs that the wheel installs; without the command line's libraries they say what to install."""

import sys
from importlib import import_module
from typing import Any, Final

from cluster import names

_LIBRARIES: Final = frozenset({"click", "yaml"})
"""Modules of the extra ``cli``."""


def main() -> None:
    """``gpu-booking`` and ``kubectl-gpu``."""
    try:
        program = _program()
    except ModuleNotFoundError as error:
        sys.exit(
            f"Error: the command line's libraries are not installed ({error.name} is missing)."
            f" Install them with: pipx install '{names.PROGRAM}[cli]'"
        )
    program.main()


def complete() -> None:
    """``kubectl_complete-gpu``. A user is in the middle of a line: nothing is said."""
    try:
        program = _program()
    except ModuleNotFoundError:
        return
    program.complete()


def _program() -> Any:
    try:
        return import_module("booking.cli.__main__")
    except ModuleNotFoundError as error:
        if error.name in _LIBRARIES:
            raise
        raise ImportError(str(error)) from error  # of ours: a defect, which is shown
