"""Idempotency: a request that is repeated with its key gets the same answer, and is not carried out again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from booking.principals import Principal
from booking.server.errors import KeyReusedError, RefusedError, StaleError, UnknownError
from booking.server.service.context import ServiceContext
from booking.server.store import Reading, Writing
from booking.server.store_records import ANSWERED, NOT_GRANTED, Replay

LONGEST_KEY: Final = 200
"""Characters of a key."""

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The client's name for a request, and the request's digest."""

    text: str
    digest: str
    """SHA-256 of everything in the request, before anything was derived from it."""

    @classmethod
    def of(cls, text: str, *parts: bytes) -> "Key":
        """The key of a request: its text, and every part of the request (method, address, body).

        Raises:
            ValueError: the text is empty, too long or not visible.
        """
        if not 0 < len(text) <= LONGEST_KEY or not text.isprintable():
            raise ValueError(f"An idempotency key is 1 to {LONGEST_KEY} visible characters.")
        digest = sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return cls(text=text, digest=digest.hexdigest())


_REFUSALS: Final = (RefusedError, UnknownError, StaleError)
"""Answers that are final for a request. Missing permission and temporary failures are not among them."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """A refusal that was raised: it is raised again once the use of the key is stored."""

    error: Exception


def answered(reading: Reading, who: Principal, key: Key | None, kind: type[T]) -> T | None:
    """The earlier answer to this request; None if it is new, or was refused.

    Raises:
        KeyReusedError: the key was used for another request.
    """
    before = _before(reading, who, key) if key else None
    return msgspec.json.decode(before.body, type=kind) if before and before.is_answer else None


def once(
    context: ServiceContext, who: Principal, decide: Callable[[Writing], R], *, kind: type[T], key: Key | None
) -> T | R:
    """The result of a transaction: decided once for all requests of a user with this key.

    Its answer is stored in the same transaction. For a refusal, returned or raised, only the use of the key
    is stored: the same request is decided again, and another one may not use the key.

    Args:
        context: the service's dependencies.
        who: the caller.
        decide: see ``Store.write``; it refuses before it writes.
        kind: type of an answer. A returned value of another type is a refusal.
        key: of the request; None: every request is decided.

    Raises:
        KeyReusedError: the key was used for another request.
    """
    if key is None:
        return context.store.write(decide)

    def decided(writing: Writing) -> T | R | _Raised:
        before = answered(writing, who, key, kind)
        if before is not None:
            return before
        written = writing.writes
        try:
            answer = decide(writing)
        except _REFUSALS as error:
            if writing.writes != written:
                raise
            _take(context, writing, who, key, answer=None)
            return _Raised(error)
        _take(context, writing, who, key, answer=answer if isinstance(answer, kind) else None)
        return answer

    outcome = context.store.write(decided)
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome


def judged(
    context: ServiceContext,
    who: Principal,
    judge: Callable[[Reading], T],
    keep: Callable[[Writing, T], None],
    *,
    kind: type[T],
    key: Key | None,
    dry_run: bool,
) -> T:
    """The result of a request, stored in the transaction that evaluates it; a dry run stores nothing.

    Args:
        context: the service's dependencies.
        who: the caller.
        judge: returns the answer, or raises a refusal.
        keep: writes the answer and its audit.
        kind: type of the answer.
        key: see ``once``; a dry run neither uses a key nor gets the answer of one.
        dry_run: whether nothing is written.

    Raises:
        KeyReusedError: the key was used for another request.
    """
    if dry_run:
        return context.store.read(judge)

    def decide(writing: Writing) -> T:
        answer = judge(writing)
        keep(writing, answer)
        return answer

    return once(context, who, decide, kind=kind, key=key)


def spend(context: ServiceContext, who: Principal, key: Key | None) -> None:
    """Mark the key of a request that was refused before any decision as used.

    Raises:
        KeyReusedError: the key was used for another request.
    """

    def write(writing: Writing) -> None:
        if key and _before(writing, who, key) is None:
            _take(context, writing, who, key, answer=None)

    if key:
        context.store.write(write)


@contextmanager
def spending(context: ServiceContext, who: Principal, key: Key | None) -> Iterator[None]:
    """Mark the key as used if a refusal is raised inside."""
    try:
        yield
    except _REFUSALS:
        spend(context, who, key)
        raise


def _before(reading: Reading, who: Principal, key: Key) -> Replay | None:
    before = reading.replayed(who.user, key.text)
    if before is not None and before.digest != key.digest:
        raise KeyReusedError(
            "This idempotency key was used for another request: take a new one for every new request."
        )
    return before


def _take(
    context: ServiceContext, writing: Writing, who: Principal, key: Key, *, answer: msgspec.Struct | None
) -> None:
    """Store the key with the request's digest and its answer; None: a refusal."""
    body = b"" if answer is None else msgspec.json.encode(answer)
    status = ANSWERED if answer is not None else NOT_GRANTED
    replay = Replay(digest=key.digest, status=status, body=body, headers={}, at=context.clock.now())
    writing.remember(who.user, key.text, replay)
