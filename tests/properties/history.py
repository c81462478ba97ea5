"""Long random histories: steps drawn by hypothesis or rolled from a seed, laws checked after each.

Hypothesis gives one test case 8 KiB of choices, so that a history of its own ends after some hundred steps.
The same machine is therefore driven twice: ``by_hypothesis`` (many histories of 200 steps, shrunk by
hypothesis), and ``play`` (one history of any length from a printed seed, shrunk here).
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from math import prod
from typing import Any, Final, Protocol, TypeVar

from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

T = TypeVar("T")
Do = TypeVar("Do", bound=Callable[..., object])

SEED: Final = "HISTORY_SEED"
"""Environment variable: play the history of this seed."""
TRIED_AT_MOST: Final = 400
"""Histories that are played to find a shorter one that fails."""


class Source(Protocol):
    """Where choices come from."""

    def number(self, most: int) -> int:
        """From 0 to ``most``; smaller is simpler."""
        ...


class Pick:
    """Choices of one step, in words."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def between(self, least: int, most: int) -> int:
        """A number, both ends included."""
        return least + self._source.number(most - least)

    def one(self, options: Sequence[T]) -> T:
        """One of these; the first is the simplest."""
        return options[self._source.number(len(options) - 1)]

    def some(self, options: Sequence[T]) -> list[T]:
        """Any of these (sixteen at most), in their order."""
        bits = self._source.number((1 << len(options)) - 1)
        return [option for place, option in enumerate(options) if bits >> place & 1]

    def many(self, *sizes: int) -> tuple[int, ...]:
        """Numbers below these sizes, for the price of one choice."""
        rest, numbers = self._source.number(prod(sizes) - 1), []
        for size in sizes:
            rest, number = divmod(rest, size)
            numbers.append(number)
        return tuple(numbers)

    def chance(self, of: int) -> bool:
        """True once in so many times."""
        return self._source.number(of - 1) == of - 1


def step(weight: int = 1) -> Callable[[Do], Do]:
    """Mark a method ``(self, pick) -> sentence or None`` as something that may happen."""

    def marked(method: Do) -> Do:
        method.__dict__["weight"] = weight
        return method

    return marked


class Machine:
    """What is tested, and what must be true of it. Made without arguments for each history."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        """What has happened, for people."""

    @classmethod
    def steps(cls) -> dict[str, int]:
        """Name -> weight of everything that may happen."""
        found = {name: getattr(cls, name).__dict__.get("weight") for name in dir(cls) if name[0] != "_"}
        return {name: weight for name, weight in sorted(found.items()) if weight}

    def take(self, name: str, source: Source) -> None:
        """One step, then every law."""
        message = getattr(self, name)(Pick(source))
        self.messages.append(f"{name}: {message}" if message else name)
        self.check()

    def check(self) -> None:
        """Assert everything that is true at every moment."""
        raise NotImplementedError

    def settle(self) -> None:
        """Assert what is true in the end, when nothing more happens."""

    def close(self) -> None:
        """Give back what was opened."""


# --- two hundred steps by hypothesis -----------------------------------------------------------------
@dataclass(frozen=True)
class _Drawn:
    data: st.DataObject

    def number(self, most: int) -> int:
        return self.data.draw(st.integers(0, most)) if most else 0


def by_hypothesis(kind: type[Machine], *, examples: int, steps: int = 200) -> Any:
    """A test case of histories of this machine; ten times as many of them in a soak."""

    class Histories(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.machine = kind()

        def teardown(self) -> None:
            try:
                self.machine.settle()
            finally:
                self.machine.close()

    for name, weight in kind.steps().items():
        # Hypothesis knows no weights: a step that happens often is several rules.
        for number in range(weight):
            setattr(Histories, f"{name}_{number}" if number else name, rule(data=st.data())(_taking(name)))
    test_case = Histories.TestCase
    many = examples * (10 if is_soak() else 1)
    test_case.settings = settings(
        settings(),
        max_examples=many,
        stateful_step_count=steps,
        phases=[phase for phase in Phase if phase is not Phase.explain],
        print_blob=True,
        report_multiple_bugs=False,
    )
    return test_case


def _taking(name: str) -> Callable[[Any, st.DataObject], None]:
    def take(self: Any, data: st.DataObject) -> None:
        self.machine.take(name, _Drawn(data))
        note(self.machine.messages[-1])

    take.__name__ = name
    return take


# --- one long history from a seed ----------------------------------------------------------------------
def length() -> int:
    """Steps of a long history: the profile's ``stateful_step_count``, 200 or, in a soak, 10,000."""
    return int(settings.get_profile(settings.get_current_profile_name()).stateful_step_count)


def is_soak() -> bool:
    """Whether the profile asks for more than every day."""
    return settings.get_current_profile_name() == "soak"


@dataclass
class Taken:
    """A step, and the numbers that were chosen in it."""

    name: str
    numbers: list[int] = field(default_factory=list)


class Dice:
    """Numbers from a seed, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rolled = 0

    def number(self, most: int) -> int:
        """From 0 to ``most``."""
        self._rolled += 1
        digest = blake2b(b"%d %d" % (self._seed, self._rolled), digest_size=8).digest()
        return int.from_bytes(digest) % (most + 1)


class _Rolled:
    """Rolled numbers, written down."""

    def __init__(self, dice: Dice, taken: Taken) -> None:
        self._dice = dice
        self._taken = taken

    def number(self, most: int) -> int:
        chosen = self._dice.number(most)
        self._taken.numbers.append(chosen)
        return chosen


class _Replayed:
    """Numbers that were written down; where others are in reach than then, the nearest."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def number(self, most: int) -> int:
        return min(next(self._numbers, 0), most)


@dataclass(frozen=True)
class Played:
    """A history in which no law was broken."""

    steps: int
    seed: int


class HistoryError(AssertionError):
    """A law was broken; the text says how, and by which history."""


def play(kind: type[Machine], *, seed: int | None = None, steps: int | None = None) -> "Played":
    """Play one history.

    Args:
        kind: the machine.
        seed: of its choices; by default from the environment, or a new one.
        steps: how many.

    Raises:
        HistoryError: a law was broken; with the seed and a shorter history that breaks it.
    """
    chosen = seed if seed is not None else int(os.environ.get(SEED) or secrets.randbelow(2**32))
    history: list[Taken] = []
    failure = _failure(kind, _rolling(kind, Dice(chosen), history, steps or length()))
    if failure is None:
        return Played(len(history), chosen)
    shortest = shrunk(kind, history)
    messages, error = _played(kind, shortest)
    lines = "\n".join(f"  {number}. {message}" for number, message in enumerate(messages, 1))
    raise HistoryError(
        f"Step {len(history)} of the history {SEED}={chosen} broke a law. Shortened:\n{lines}\n"
        f"  then {type(error).__name__}: {error}\n  steps: {shortest}"
    ) from error


def _rolling(
    kind: type[Machine], dice: Dice, history: list[Taken], steps: int
) -> Iterator[tuple[str, Source]]:
    names = [name for name, weight in kind.steps().items() for _ in range(weight)]
    for _ in range(steps):
        taken = Taken(names[dice.number(len(names) - 1)])
        history.append(taken)
        yield taken.name, _Rolled(dice, taken)


class _Caught:
    """Keeps what goes wrong, whatever it is: it must be found again, and reported."""

    error: Exception | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return self.error is not None


def _failure(
    kind: type[Machine], steps: Iterator[tuple[str, Source]], messages: list[str] | None = None
) -> Exception | None:
    """What goes wrong in a history, None when nothing does."""
    machine, caught = kind(), _Caught()
    if messages is not None:
        machine.messages = messages
    with closing(machine), caught:
        for name, source in steps:
            machine.take(name, source)
            if messages is None:
                machine.messages.clear()
        machine.settle()
    return caught.error


def _played(kind: type[Machine], history: Sequence[Taken]) -> tuple[list[str], Exception | None]:
    """What happens in a written history, and what goes wrong in it."""
    messages: list[str] = []
    failure = _failure(kind, ((taken.name, _Replayed(taken.numbers)) for taken in history), messages)
    return messages, failure


def shrunk(kind: type[Machine], history: list[Taken]) -> list[Taken]:
    """A history that still fails, with fewer steps and smaller numbers."""
    left = [TRIED_AT_MOST]

    def fails(candidate: list[Taken]) -> bool:
        left[0] -= 1
        return left[0] >= 0 and _played(kind, candidate)[1] is not None

    size = max(1, len(history) // 2)
    while size:
        begin = 0
        while begin < len(history):
            shorter = history[:begin] + history[begin + size :]
            if fails(shorter):
                history = shorter
            else:
                begin += size
        size //= 2
    for place in range(len(history)):
        for lower in _lowered(history, place):
            if fails(lower):
                history = lower
    return history


def _lowered(history: list[Taken], place: int) -> Iterator[list[Taken]]:
    """The history with one number of this step at its lowest."""
    taken = history[place]
    for which, number in enumerate(taken.numbers):
        if number:
            lower = Taken(taken.name, [*taken.numbers[:which], 0, *taken.numbers[which + 1 :]])
            yield [*history[:place], lower, *history[place + 1 :]]
