"""The bar above every page: as whom one acts, what one can do, the time, and what happens. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from string import Template
from typing import Final

from booking.wording import with_local_times
from demo.feed import Entry
from demo.lab.people import ALICE, BOB, CAROL

FIELD: Final = "token"
"""The hidden field by which a form of the bar is known."""
SHOWN: Final = 3
"""Entries that are seen without opening the list."""
PERSONS: Final = ((ALICE, "alice"), (BOB, "bob"), (CAROL, "administrator"))
_INSTANT: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\b", re.ASCII)
"""An instant as Events write it."""
SPEEDS: Final = ((1, "x1"), (60, "x60"))

_BAR: Final = Template(
    """<section class="demo-bar" id="demo-bar" aria-label="Demo">
<div class="demo-row">
<p class="demo-name" title="Simulated GPUs, the real product">Demo</p>
<form method="post" action="/demo/act"><input type="hidden" name="$field" value="$token">
<fieldset class="demo-set"><legend>You are</legend>$persons</fieldset>
<fieldset class="demo-set"><legend>Start</legend>$pods</fieldset>
<fieldset class="demo-set"><legend>Trouble</legend>$harms</fieldset>
<fieldset class="demo-set"><legend>Time</legend>$times
<time class="demo-clock" id="demo-time">$time</time></fieldset>
</form>
</div>
<div class="demo-feed"><ul id="demo-feed" aria-live="polite">$newest</ul>
<details><summary>All that has happened</summary><ul id="demo-all">$all</ul></details></div>
</section>
"""
)
_BUTTON: Final = Template('<button name="do" value="$value"$pressed title="$title">$text</button>')
_HEAD: Final = '<link rel="stylesheet" href="/demo/bar.css"><script src="/demo/bar.js" defer></script>'
_SHUT: Final = Template(
    """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>GPU Booking · Demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="/demo/bar.css"></head>
<body class="demo-shut"><main><h1>$title</h1><p>$message</p></main></body></html>"""
)


@dataclass(frozen=True, kw_only=True)
class BarState:
    """What the bar shows."""

    person: str
    token: str
    now: str
    """The time on the site's clock, for people."""
    speed: float
    is_leaping: bool
    broken: str | None
    drained: str | None
    gives_claims: bool
    """Whether any node gives its GPUs by claims."""
    entries: Sequence[Entry]


def bar(state: BarState, moment: Callable[[datetime], str]) -> str:
    """The bar as HTML. ``moment`` shows an instant on the site's clock."""
    return _BAR.substitute(
        field=FIELD,
        token=escape(state.token),
        persons="".join(
            _button(f"be {who}", text, pressed=who == state.person, title=f"Act as {who}")
            for who, text in PERSONS
        ),
        pods=_pods(state.person, gives_claims=state.gives_claims),
        harms=_harms(state),
        times=_times(state),
        time=escape(state.now),
        newest=lines(state.entries[:SHOWN], state.person, moment),
        all=lines(state.entries, state.person, moment),
    )


def framed(page: str, shown: str) -> str:
    """A page with the bar; a fragment of one stays as it is."""
    head, begin = page.find("</head>"), page.find("<body")
    if head < 0 or begin < head:
        return page
    body = page.index(">", begin) + 1
    return page[:head] + _HEAD + page[head:body] + shown + page[body:]


def shut(title: str, message: str) -> str:
    """A page for who is not let in."""
    return _SHUT.substitute(title=escape(title), message=escape(message))


def lines(entries: Iterable[Entry], person: str, moment: Callable[[datetime], str]) -> str:
    """Entries as items of a list; a person's own pods are explained by a link."""
    return "".join(_line(entry, person, moment) for entry in entries) or "<li>Nothing has happened yet.</li>"


def _line(entry: Entry, person: str, moment: Callable[[datetime], str]) -> str:
    name = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
    shown = escape(name)
    if entry.namespace and person in (entry.user, CAROL):
        shown = f'<a href="/why/{escape(name)}">{shown}</a>'
    return (
        f'<li class="demo-{entry.mood}"><time>{escape(moment(entry.at))}</time> {shown} '
        f"{escape(_localized(entry.text, moment))}</li>"
    )


def _localized(text: str, moment: Callable[[datetime], str]) -> str:
    """A message with its instants on the site's clock."""
    text = _INSTANT.sub(lambda found: moment(datetime.fromisoformat(found[0])), text)
    return with_local_times(text, moment)


def _pods(person: str, *, gives_claims: bool) -> str:
    return "".join(
        _button(f"start {what}", text, title=f"Create a pod of {person}'s: {title}")
        for what, text, title in (
            ("1", "1 GPU", "a job with one GPU, on a running booking where there is one"),
            ("8", "8 GPUs", "a job with eight GPUs of one node"),
            ("share", "Share", "one with a quarter of a GPU, beside others"),
            ("claim", "Claim", "a job with one GPU by a claim (Dynamic Resource Allocation)"),
            ("notebook", "Notebook", "a notebook by JupyterHub; without a GPU where none is free"),
        )
        if gives_claims or what != "claim"
    )


def _harms(state: BarState) -> str:
    gpu = (
        ("Repair GPU", f"Repair {state.broken}") if state.broken else ("Break a GPU", "One falls off the bus")
    )
    node = ("Drain a node", "An administrator cordons it and orders its pods to leave")
    if state.drained:
        node = ("Reopen node", f"{state.drained} takes pods again")
    return _button("gpu", gpu[0], title=gpu[1]) + _button("node", node[0], title=node[1])


def _times(state: BarState) -> str:
    at_work = None if state.is_leaping else state.speed
    speeds = "".join(
        _button(f"speed {speed}", text, pressed=speed == at_work, title=f"{text} real time")
        for speed, text in SPEEDS
    )
    return speeds + _button("leap", "+1 day", pressed=state.is_leaping, title="Go through a day at once")


def _button(value: str, text: str, *, title: str, pressed: bool | None = None) -> str:
    state = "" if pressed is None else f' aria-pressed="{str(pressed).lower()}"'
    return _BUTTON.substitute(value=escape(value), text=escape(text), title=escape(title), pressed=state)
