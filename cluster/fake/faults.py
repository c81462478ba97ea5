"""What goes wrong between a client and the API server, because a test wants it to."""

from collections.abc import Callable

from cluster.kube.errors import ApiError, Request, Unreachable


class Faults:
    """Errors, lost answers and races that wait for the next call of a verb; each happens once."""

    def __init__(self) -> None:
        self.down = False
        self._errors: list[tuple[str, ApiError]] = []
        self._lost: list[str] = []
        self._rivals: list[tuple[str, Callable[[], object]]] = []

    def fail(self, verb: str, error: ApiError) -> None:
        """The next call of that verb fails without effect."""
        self._errors.append((verb, error))

    def lose(self, verb: str) -> None:
        """The next call of that verb is done, and its answer is lost."""
        self._lost.append(verb)

    def before(self, verb: str, rival: Callable[[], object]) -> None:
        """Somebody else acts just before the next call of that verb."""
        self._rivals.append((verb, rival))

    def clear(self) -> None:
        """Nothing of that waits any more."""
        self._errors.clear()
        self._lost.clear()
        self._rivals.clear()

    def strike_before(self, request: Request) -> None:
        """What happens before a call is done.

        Raises:
            ApiError: as asked for.
        """
        for waiting in self._rivals:
            if waiting[0] == request.verb:
                self._rivals.remove(waiting)
                waiting[1]()
                break
        if self.down:
            raise Unreachable(request, "connection refused")
        for fault in self._errors:
            if fault[0] == request.verb:
                self._errors.remove(fault)
                raise fault[1]

    def strike_after(self, request: Request) -> None:
        """What happens after a call was done.

        Raises:
            Unreachable: the answer is lost.
        """
        if request.verb in self._lost:
            self._lost.remove(request.verb)
            raise Unreachable(request, "the connection broke before the answer came")
