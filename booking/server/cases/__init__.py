"""``policy test``: replays written cases against a policy before it is put in force."""

from pathlib import Path

from booking.policy.policy import Policy
from booking.policy.reading import read_policy
from booking.policy.yaml_nodes import PolicyError
from booking.server.cases.file import CaseFileError, read_cases
from booking.server.cases.replay import Outcome, replay

__all__ = ["CaseFileError", "Outcome", "replay_file"]


def replay_file(path: Path) -> tuple[Outcome, ...]:
    """Every case of a file, evaluated by the policy that the file names; paths are relative to the file.

    Raises:
        CaseFileError: the file, or its policy, cannot be used; the message says which file.
    """
    text = _text(path)
    try:
        cases = read_cases(text)
    except CaseFileError as error:
        raise CaseFileError(f"{path}: {error}") from error
    policy = Policy() if cases.policy is None else _policy(path.parent / cases.policy)
    try:
        return replay(cases, policy)
    except CaseFileError as error:
        raise CaseFileError(f"{path}: {error}") from error


def _policy(path: Path) -> Policy:
    try:
        return read_policy(_text(path))
    except PolicyError as error:
        raise CaseFileError(f"The policy file {path} is refused.\n{error}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CaseFileError(f"The file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CaseFileError(f"The file {path} is not UTF-8.") from error
