"""Alice's requests to the booking server, and a line for each answer."""

from datetime import timedelta
from typing import Any

from devcluster.demo.reporter import Reporter, StepError
from devcluster.demo.rest import Rest, RestAnswer
from devcluster.wait import poll

_LINE_SECONDS = 60.0
SOMEBODYS = "another user's pod"


class BookingClient:
    """Alice's requests; an answer that the story does not expect ends the story (StepError)."""

    def __init__(self, rest: Rest, reporter: Reporter) -> None:
        self._rest = rest
        self._reporter = reporter

    def book(self, *, model: str, duration: str) -> str:
        """Book one GPU, starting now. Returns the booking's id."""
        answer = self._rest.book(model=model, count=1, duration=duration)
        booking = self._expect(answer, f"alice books 1 x {model} for {duration}")
        self._reporter.say(
            "alice", f"books 1 x {model} from {booking['start']} to {booking['end']}: {booking['id']}"
        )
        return str(booking["id"])

    def is_refused(self, expected: set[str], **request: object) -> None:
        """Ask for a booking that breaks rules; the answer must name them, and the earliest start."""
        answer = self._rest.book(**request)
        violations = answer.body.get("violations", [])
        broken = {violation["rule"] for violation in violations}
        if not answer.is_refusal or not expected <= broken or not answer.body.get("earliest_start"):
            raise StepError(
                "the second booking is refused with every rule that it breaks",
                expected=f"{', '.join(sorted(expected))} and the earliest start",
                seen=f"{answer.status} {answer.body}",
            )
        self._reporter.say("alice", f"asks for another: refused ({answer.status}), all at once:")
        for violation in violations:
            self._reporter.say("", f"- {violation['rule']}: {violation['message']}")
        self._reporter.say("alice", f"may start her next booking on {answer.body['earliest_start']}")

    def release(self, booking: str) -> None:
        """Release a running booking."""
        done = self._expect(self._rest.release(booking), "alice releases her booking")
        self._reporter.say("alice", f"releases {booking}: it ended at {done['end']}")

    def shorten(self, booking: str, *, seconds: float) -> None:
        """Let a running booking end this many seconds from now."""
        end = (self._reporter.now + timedelta(seconds=seconds)).isoformat(timespec="seconds")
        done = self._expect(self._rest.change(booking, end=end), "alice shortens her booking")
        self._reporter.say("alice", f"shortens {booking}: it ends at {done['end']}")

    def await_end(self, booking: str, *, seconds: float) -> None:
        """Wait until a booking has reached its end."""

        def over() -> bool:
            return self._state(booking) == "ended"

        if not poll(over, seconds=seconds, every=0.2):
            raise StepError(f"{booking} ends by its time", expected="ended", seen=self._state(booking))
        self._reporter.say("alice", f"{booking} is over")

    @property
    def divides_fairly(self) -> bool:
        """Whether GPUs without a booking go by what everybody has."""
        return bool(self._queue()["mode"] != "off")

    def await_line(self, model: str, first: str) -> None:
        """Wait until this pod, or ``SOMEBODYS``, is the first in line for a model, and report the line."""

        def line() -> list[str]:
            pods = (pod for one in self._queue()["models"] if one["model"] == model for pod in one["pods"])
            return [pod["name"] or SOMEBODYS for pod in pods if pod["position"]]

        def found() -> list[str] | None:
            return now if (now := line())[:1] == [first] else None

        seen = poll(found, seconds=_LINE_SECONDS, every=0.2)
        if not seen:
            raise StepError(f"{first} is the first in line", expected=first, seen=", ".join(line()))
        self._reporter.say("alice", f"sees the line: {', '.join(seen)}")

    def _queue(self) -> dict[str, Any]:
        return self._expect(self._rest.ask("GET", "/queue"), "alice reads the queue")

    def _state(self, booking: str) -> str:
        return str(self._expect(self._rest.show(booking), f"alice reads {booking}")["state"])

    def _expect(self, answer: RestAnswer, step: str) -> dict[str, Any]:
        if answer.is_refusal:
            raise StepError(step, expected="yes", seen=f"{answer.status} {answer.body}")
        return answer.body
