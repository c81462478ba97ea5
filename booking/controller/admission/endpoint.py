"""HTTP around the webhook, an ASGI app: three paths, with limits on the size and duration of a request body.

Every malformed request is answered with a message; ``webhook`` decides the answer to a well-formed one.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final

from booking.controller.admission.metrics import Metrics
from booking.controller.admission.webhook import Reply, refusal
from cluster.process.clock import Clock

PATH: Final = "/admit"
"""Where the API server asks first, before other people's webhooks."""
LAST_PATH: Final = "/admit/last"
"""Where it asks last, about a pod that others have changed since."""
HIDING_PATH: Final = "/admit/visible-devices"
"""Where it asks about pods without a GPU that are to see none, if it cannot write that itself."""
CLAIMS_PATH: Final = "/admit/claims"
"""Where it asks about new ResourceClaims, where claims can be booked."""
LONGEST_BODY_BYTES: Final = 8 * 2**20
"""The API server stores objects of at most 1.5 MiB; a review carries one or two."""
LONGEST_BODY_SECONDS: Final = 5.0
"""The API server gives up sooner."""

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _RefusedError(Exception):
    """The request is refused before its body is read."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.reply = refusal(status, message)


class _GoneError(Exception):
    """The client has closed the connection before its request was complete."""


class Endpoint:
    """The ASGI app. It keeps no state between requests, so several servers may share it."""

    def __init__(
        self,
        admit: Callable[[bytes], Reply],
        clock: Clock,
        metrics: Metrics,
        *,
        admit_last: Callable[[bytes], Reply] | None = None,
        hide: Callable[[bytes], Reply] | None = None,
        mark_claim: Callable[[bytes], Reply] | None = None,
        longest_body: int = LONGEST_BODY_BYTES,
        body_seconds: float = LONGEST_BODY_SECONDS,
    ) -> None:
        """Create it.

        Args:
            admit: answers what is posted to ``PATH``.
            clock: measures the answers.
            metrics: counts them.
            admit_last: answers what is posted to ``LAST_PATH``; None: nothing is there.
            hide: the same for ``HIDING_PATH``.
            mark_claim: the same for ``CLAIMS_PATH``.
            longest_body: bytes.
            body_seconds: how long a client may take to send it.
        """
        answers = {PATH: admit, LAST_PATH: admit_last, HIDING_PATH: hide, CLAIMS_PATH: mark_claim}
        self._answers = {path: each for path, each in answers.items() if each}
        self._clock = clock
        self._metrics = metrics
        self._longest_body = longest_body
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an AdmissionReview that the API server posts."""
        try:
            self._check(scope)
            body = await self._body(receive)
            begin = self._clock.monotonic()
            reply = self._answers[scope["path"]](body)
            self._metrics.seconds.observe(self._clock.monotonic() - begin)
        except _GoneError:
            return
        except _RefusedError as refused:
            self._metrics.requests.labels(outcome=refused.reply.status.value).inc()
            reply = refused.reply
        headers = [
            (b"content-type", reply.content_type.encode()),
            (b"content-length", str(len(reply.body)).encode()),
        ]
        await send({"type": "http.response.start", "status": reply.status.value, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    def _check(self, scope: Scope) -> None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        length = headers.get(b"content-length", "0")
        if scope["path"] not in self._answers:
            known = " and ".join(self._answers)
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"There is nothing here but {known}.")
        if scope["method"] != "POST":
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"{scope['path']} answers POST alone.")
        if length.isdecimal() and int(length) > self._longest_body:
            raise self._too_long()

    async def _body(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        try:
            # The event loop's own clock: nothing else can time out a wait for a client.
            async with asyncio.timeout(self._body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _GoneError
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    if sum(map(len, parts)) > self._longest_body:
                        raise self._too_long()
        except TimeoutError:
            slow = f"The body did not arrive within {self._body_seconds:g} seconds."
            raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, slow) from None
        return b"".join(parts)

    def _too_long(self) -> _RefusedError:
        message = f"The body is longer than {self._longest_body} bytes."
        return _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
