"""The policy file of an installation, read again when it changes.

A ConfigMap that is mounted as a volume changes by swapping a symbolic link; so the file is opened again each
time, and its bytes are compared: dates and inodes prove nothing.
"""

from pathlib import Path
from typing import Final

import structlog

from booking.policy.policy import Policy
from booking.policy.reading import LONGEST, read_policy
from booking.policy.yaml_nodes import PolicyError

log = structlog.get_logger(__name__)

PERIOD: Final = 5.0
"""Seconds between two reads of the file."""


class PolicyFileError(ValueError):
    """The policy file cannot be used; the messages say where and why."""


class PolicySource:
    """The file, and why its content is not in force."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self._path = path
        self._seen: bytes | None = None
        """The bytes read last; None if that failed."""
        self.problem: str | None = None
        """Why the present file is not in force; None when it is."""

    def changed(self) -> tuple[Policy, bytes] | None:
        """The policy and its text, if the file has changed and is valid."""
        try:
            before, self._seen = self._seen, None
            self._seen = found = _bytes_of(self._path)
            if found == before:
                return None
            policy = _policy_in(self._path, found)
        except PolicyFileError as error:
            self._refuse(str(error))
            return None
        self.problem = None
        return policy, found

    def _refuse(self, problem: str) -> None:
        if problem != self.problem:
            log.error(
                "the policy file is invalid",
                problem=problem,
                meanwhile="the last valid policy stays in force",
            )
        self.problem = problem


def _bytes_of(path: Path) -> bytes:
    """The content of the file, as far as a policy may be long; raises PolicyFileError."""
    try:
        with path.open("rb") as file:
            return file.read(4 * LONGEST + 1)
    except OSError as error:
        raise PolicyFileError(f"The policy file {path} cannot be read: {error.strerror}.") from error


def _policy_in(path: Path, found: bytes) -> Policy:
    """The policy in the file's content; raises PolicyFileError."""
    try:
        return read_policy(found.decode())
    except UnicodeDecodeError as error:
        line = found[: error.start].count(b"\n") + 1
        raise PolicyFileError(f"The policy file {path} is not UTF-8, see line {line}.") from error
    except PolicyError as error:
        raise PolicyFileError(f"The policy file {path} is refused.\n{error}") from error
