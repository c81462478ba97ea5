"""The people of the lab, in which namespaces they work, and how the API server knows them."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.kube.token_review import Subject

ALICE: Final = "alice"
BOB: Final = "bob"
CAROL: Final = "carol"
"""The administrator."""
TEAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "vision": (ALICE, "student-1", "student-2", "postdoc-1"),
    "speech": (BOB, "student-3", "student-4", "engineer-1"),
    "robotics": (CAROL, "student-5", "student-6", "engineer-2"),
}
"""Namespace -> who works there."""
EVERYBODY: Final = tuple(person for team in TEAMS.values() for person in team)
HUB: Final = "system:serviceaccount:hub:hub"
"""The account of the lab's JupyterHub, which creates notebooks for people."""


def namespace_of(person: str) -> str:
    """Where somebody works."""
    return next(team for team, members in TEAMS.items() if person in members)


def subject_of(person: str) -> Subject:
    """How the API server knows somebody."""
    return Subject(person, frozenset({"system:authenticated", namespace_of(person)}))


def is_administrator(name: str) -> bool:
    """Whether the cluster's RBAC lets somebody administer bookings."""
    return name == CAROL


@dataclass(frozen=True)
class Tokens:
    """A token for everybody, new at every start."""

    of: Mapping[str, str]

    @classmethod
    def new(cls) -> "Tokens":
        """Tokens that nobody can guess."""
        return cls({person: secrets.token_urlsafe(32) for person in EVERYBODY})

    def owner_of(self, token: str) -> Subject | None:
        """Whose token it is; None for no one's."""
        return next(
            (subject_of(p) for p, known in self.of.items() if secrets.compare_digest(known, token)), None
        )
