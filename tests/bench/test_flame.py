"""A flame graph draws its stacks: each frame as wide as the time spent, below its caller."""

from dataclasses import dataclass
from itertools import pairwise
from xml.parsers.expat import ParserCreate

import pytest

from tests.bench.flame import ROW, TOP, WIDTH, flame
from tests.bench.tracing import Stack

STACKS: dict[Stack, int] = {
    ("main", "extender.f.<lambda>"): 30,
    ("main", "extender.f.<lambda>", "json.loads"): 30,
    ("main", "other.g"): 20,
    ("idle",): 20,
}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    text: str = ""


class Drawing:
    """The elements of a text that is XML, in their order."""

    def __init__(self, text: str) -> None:
        self.elements: list[Element] = []
        parser = ParserCreate()
        parser.StartElementHandler = lambda tag, more: self.elements.append(Element(tag, more))
        parser.CharacterDataHandler = self._more_text
        parser.Parse(text.encode())

    def _more_text(self, text: str) -> None:
        self.elements[-1].text += text.strip("\n")

    @property
    def boxes(self) -> dict[str, tuple[float, float, float]]:
        """Text of a tooltip -> left, top and width of its box."""
        return {
            title.text: tuple(float(box.attributes[key]) for key in ("x", "y", "width"))
            for title, box in pairwise(self.elements[2:])
            if title.tag == "title"
        }

    def texts(self) -> list[str]:
        return [one.text for one in self.elements if one.tag == "text"]


def test_a_frame_is_as_wide_as_its_time_and_is_below_its_caller() -> None:
    whole = WIDTH / 100
    assert Drawing(flame(STACKS, title="known")).boxes == {
        "all: 100.0%": (0.0, TOP, WIDTH),
        "idle: 20.0%": (0.0, TOP + ROW, 20 * whole),
        "main: 80.0%": (20 * whole, TOP + ROW, 80 * whole),
        "extender.f.<lambda>: 60.0%": (20 * whole, TOP + 2 * ROW, 60 * whole),
        "json.loads: 30.0%": (20 * whole, TOP + 3 * ROW, 30 * whole),
        "other.g: 20.0%": (80 * whole, TOP + 2 * ROW, 20 * whole),
    }


def test_the_graph_is_as_high_as_its_deepest_stack_and_has_its_title() -> None:
    head, title, *_ = Drawing(flame(STACKS, title="1 < 2 & so on")).elements
    assert head.attributes["viewBox"] == f"0 0 {WIDTH} {TOP + 4 * ROW}"
    assert title.text == "1 < 2 & so on"


def test_a_name_that_does_not_fit_loses_its_beginning() -> None:
    title, everything, long = Drawing(flame({("m" * 500 + "end",): 1}, title="long")).texts()
    assert (title, everything) == ("long", "all")
    assert long.endswith("mend")
    assert len(long) < 500


def test_frames_that_are_too_narrow_to_be_seen_are_left_out() -> None:
    assert set(Drawing(flame({("large",): 100_000, ("tiny",): 1}, title="two")).boxes) == {
        "all: 100.0%",
        "large: 100.0%",
    }


@pytest.mark.parametrize("stacks", [{}, {("main",): 0}])
def test_the_graph_is_empty_where_no_time_was_spent(stacks: dict[Stack, int]) -> None:
    assert Drawing(flame(stacks, title="nothing")).boxes == {}
