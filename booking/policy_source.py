"""The policy file of an installation, as bytes and as a policy."""

from pathlib import Path

from booking.policy.policy import Policy
from booking.policy.reading import LONGEST, read_policy
from booking.policy.yaml_nodes import PolicyError


class PolicyFileError(ValueError):
    """The policy file cannot be used; the messages say where and why."""


def bytes_of(path: Path) -> bytes:
    """The content of the file, as far as a policy may be long; raises PolicyFileError."""
    try:
        with path.open("rb") as file:
            return file.read(4 * LONGEST + 1)
    except OSError as error:
        raise PolicyFileError(f"The policy file {path} cannot be read: {error.strerror}.") from error


def policy_in(path: Path, found: bytes) -> Policy:
    """The policy in the file's content; raises PolicyFileError."""
    try:
        return read_policy(found.decode())
    except UnicodeDecodeError as error:
        line = found[: error.start].count(b"\n") + 1
        raise PolicyFileError(f"The policy file {path} is not UTF-8, see line {line}.") from error
    except PolicyError as error:
        raise PolicyFileError(f"The policy file {path} is refused.\n{error}") from error
