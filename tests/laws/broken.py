"""The error that is raised at the moment when a law is broken, with the events that led to it."""

from collections.abc import Sequence


class LawBrokenError(AssertionError):
    """A law is broken.

    law: its id, ``L1``. message: what is wrong. history: the newest events before it and the event itself, a
    line each: instant, resourceVersion, object, what changed.
    """

    def __init__(self, law: str, message: str, history: Sequence[str] = ()) -> None:
        self.law = law
        self.message = message
        self.history = tuple(history)
        lines = "".join(f"\n    {line}" for line in self.history)
        super().__init__(f"Law {law} is broken: {message}\n  What led there:{lines or ' nothing'}")


def breach_in(error: BaseException | None) -> LawBrokenError | None:
    """The broken law that an error is or contains: in a group of errors, or as its cause."""
    seen: set[int] = set()
    left = [error]
    while left:
        found = left.pop(0)
        if found is None or id(found) in seen:
            continue
        if isinstance(found, LawBrokenError):
            return found
        seen.add(id(found))
        left += found.exceptions if isinstance(found, BaseExceptionGroup) else ()
        left += (found.__cause__, found.__context__)
    return None
