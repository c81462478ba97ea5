"""Idempotency: a request that comes again with its key gets the answer that it got, and does nothing."""

from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from booking.errors import KeyReusedError
from booking.principals import Principal
from booking.service.ground import Ground
from booking.store import Reading, Writing
from booking.stored import Replay

LONGEST_KEY: Final = 200
"""Characters of a key."""

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What the asker calls a request, and what the request was."""

    text: str
    digest: str
    """SHA-256 of everything that the request said, before anything of it was computed."""

    @classmethod
    def of(cls, text: str, *said: bytes) -> "Key":
        """The key of a request: its text, and every part of what was said (method, address, body).

        Raises:
            ValueError: the text is empty, too long or not visible.
        """
        if not 0 < len(text) <= LONGEST_KEY or not text.isprintable():
            raise ValueError(f"An idempotency key is 1 to {LONGEST_KEY} visible characters.")
        digest = sha256()
        for part in said:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return cls(text=text, digest=digest.hexdigest())


def answered(reading: Reading, who: Principal, key: Key | None, kind: type[T]) -> T | None:
    """What this request was answered before; None where it is new.

    Raises:
        KeyReusedError: another request had the key.
    """
    before = reading.replayed(who.user, key.text) if key else None
    if key is None or before is None:
        return None
    if before.digest != key.digest:
        raise KeyReusedError(
            "This idempotency key was used for another request: take a new one for every new request."
        )
    return msgspec.json.decode(before.body, type=kind)


def once(
    ground: Ground, who: Principal, decide: Callable[[Writing], R], *, kind: type[T], key: Key | None
) -> Callable[[Writing], T | R]:
    """A decision that is taken once for all requests of somebody's with this key.

    Its answer is kept in the same transaction. What is no answer of that kind, a refusal, is not kept: it is
    decided anew. The decision raises ``KeyReusedError`` where another request had the key.
    """
    if key is None:
        return decide

    def decided(writing: Writing) -> T | R:
        before = answered(writing, who, key, kind)
        if before is not None:
            return before
        answer = decide(writing)
        if isinstance(answer, kind):
            body = msgspec.json.encode(answer)
            replay = Replay(digest=key.digest, status=200, body=body, headers={}, at=ground.clock.now())
            writing.remember(who.user, key.text, replay)
        return answer

    return decided
