"""Faults between a client and the API server, as tests order them."""

from collections.abc import Callable

from cluster.kube.errors import ApiError, Refusal, Request, Unreachable, refused


class Faults:
    """Errors, lost answers and races that happen once each, at the next call with a verb."""

    def __init__(self) -> None:
        self.down = False
        self._errors: list[tuple[str, ApiError]] = []
        self._lost: list[str] = []
        self._rivals: list[tuple[str, Callable[[], object]]] = []
        self.forbidden: set[tuple[str, str]] = set()
        """(verb, plural) that nobody may do."""

    def fail(self, verb: str, error: ApiError) -> None:
        """Let the next call with this verb fail without effect."""
        self._errors.append((verb, error))

    def lose(self, verb: str) -> None:
        """Let the next call with this verb be done and its answer be lost."""
        self._lost.append(verb)

    def before(self, verb: str, rival: Callable[[], object]) -> None:
        """Call ``rival`` just before the next call with this verb is done."""
        self._rivals.append((verb, rival))

    def clear(self) -> None:
        """Forget all faults that have not happened yet."""
        self._errors.clear()
        self._lost.clear()
        self._rivals.clear()

    def strike_before(self, request: Request) -> None:
        """Let the faults happen that come before a call is done.

        Raises:
            ApiError: as ordered; Unreachable while the server is down.
        """
        for waiting in self._rivals:
            if waiting[0] == request.verb:
                self._rivals.remove(waiting)
                waiting[1]()
                break
        if self.down:
            raise Unreachable(request, "connection refused")
        if any(verb == request.verb and f"/{plural}" in request.path for verb, plural in self.forbidden):
            raise refused(request, Refusal(code=403, message="nobody has the right to that"))
        for fault in self._errors:
            if fault[0] == request.verb:
                self._errors.remove(fault)
                raise fault[1]

    def strike_after(self, request: Request) -> None:
        """Let the faults happen that come after a call was done.

        Raises:
            Unreachable: the answer is lost.
        """
        if request.verb in self._lost:
            self._lost.remove(request.verb)
            raise Unreachable(request, "the connection broke before the answer came")
