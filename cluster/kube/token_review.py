"""Whose token this is: the API server's TokenReview (authentication.k8s.io/v1). Used by the booking server.

A token is accepted only for our audiences: one that was issued for another audience, such as the API
server's own, is refused here, and ours is refused there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from cluster.kube.interface import Kube
from cluster.kube.resources import Resource
from cluster.objects.meta import Meta, Partial


class ReviewedUser(Partial, frozen=True):
    """``status.user`` of a TokenReview."""

    username: str = ""
    groups: tuple[str, ...] | None = None


class TokenReviewStatus(Partial, frozen=True):
    """``status`` of a TokenReview: the answer."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    audiences: tuple[str, ...] | None = None
    """The audiences, among ours, that the token is valid for; none if only for the API server's own."""


class TokenReview(Partial, frozen=True):
    """A TokenReview, reduced to its answer: never stored, and the token is not read back."""

    metadata: Meta = Meta()
    status: TokenReviewStatus = TokenReviewStatus()


TOKEN_REVIEWS: Final = Resource(
    group="authentication.k8s.io",
    version="v1",
    plural="tokenreviews",
    kind="TokenReview",
    namespaced=False,
    type=TokenReview,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """An authenticated user, as the API server knows them."""

    name: str
    """The raw user name."""
    groups: frozenset[str] = frozenset()


class Tokens(Protocol):
    """Finds the owners of bearer tokens."""

    def owner_of(self, token: str) -> Subject | None:
        """The token's owner; None if the token is not valid here.

        Raises:
            ApiError: the API server could not be asked.
        """
        ...


class TokenReviews:
    """``Tokens`` that asks the API server."""

    def __init__(self, kube: Kube, audiences: Sequence[str]) -> None:
        """Args: audiences: a token must have been issued for one of these; at least one.

        Raises:
            ValueError: there is no audience, so that tokens for the API server would be accepted.
        """
        if not any(audiences):
            raise ValueError("Only an audience distinguishes our tokens from others: name at least one.")
        self._kube = kube
        self._audiences = tuple(audiences)

    def owner_of(self, token: str) -> Subject | None:
        """The token's owner; see ``Tokens``."""
        body = {"spec": {"token": token, "audiences": list(self._audiences)}}
        status = self._kube.create(TOKEN_REVIEWS, body).status
        our_audiences = set(status.audiences or ()) & set(self._audiences)
        if not status.authenticated or not our_audiences or not status.user.username:
            return None
        return Subject(status.user.username, frozenset(status.user.groups or ()))
