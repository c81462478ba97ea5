"""Rewrites the tables and diagrams of the documents from the code: ``make docs``.

A table is between ``<!-- generated: NAME -->`` and ``<!-- end -->``. Values come from the running code, texts
from its docstrings. tests/architecture fails if a file differs from what this module would write.
"""

import re
import sys
from collections.abc import Callable
from typing import Final

from cluster import claim_names, dialect_names, event_reasons, names
from cluster.process import logs
from docs.tables import scheduler
from docs.tables.commands import commands_table, shared_options_table
from docs.tables.decisions import decisions_table
from docs.tables.health import health_states_table, health_table, xid_table
from docs.tables.life import life_diagram, steps_table
from docs.tables.markdown import ROOT, code, docstrings, prose, table
from docs.tables.metrics import metrics_table
from docs.tables.parts import AGENT, CONTROLLER, EXTENDER, SERVER, UNINSTALLER
from docs.tables.placement import diagrams, placements
from docs.tables.policy import booking_rules_table, limits_table, states_table
from docs.tables.reasons import events_table, problems_table, rules_table
from docs.tables.rejections import rejections_table
from docs.tables.rooms import rooms_diagram
from docs.tables.settings import settings_table
from docs.tables.versions import distributions_table, versions_table

DOCUMENTS: Final = tuple(
    ROOT / name
    for name in (
        "ARCHITECTURE.md",
        "docs/operations/events.md",
        "docs/operations/metrics.md",
        "docs/operations/metrics-controller.md",
        "docs/operations/metrics-node-agent.md",
        "docs/operations/names.md",
        "docs/operations/names-objects.md",
        "docs/operations/names-foreign.md",
        "docs/operations/names-state.md",
        "docs/operations/problems.md",
        "docs/operations/settings.md",
        "docs/operations/settings-controller.md",
        "docs/operations/settings-node-agent.md",
        "docs/operations/settings-server.md",
        "docs/extender.md",
        "docs/reclaiming.md",
        "docs/rules.md",
        "docs/cli.md",
        "docs/device-plugin.md",
        "docs/versions.md",
        "docs/adr/README.md",
    )
)
IMAGES: Final = ROOT / "docs" / "images"
_OURS: Final = re.compile("gpu[-_]booking", re.IGNORECASE)
_MARKED: Final = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class UnknownTableError(ValueError):
    """A marker names a table that does not exist."""


def render(text: str) -> str:
    """The document with every table regenerated.

    Raises:
        UnknownTableError: a marker names no table; the message lists those that exist.
    """

    def replaced(found: re.Match[str]) -> str:
        opening, name, closing = found.groups()
        if name not in TABLES:
            raise UnknownTableError(f"There is no table {name!r}; there are {', '.join(TABLES)}.")
        return f"{opening}{TABLES[name]()}{closing}"

    return _MARKED.sub(replaced, text)


def names_table(which: str) -> str:
    """The names of one table: ``keys``, ``state``, ``objects``, ``foreign`` or ``reasons``."""
    spelled = (
        (home, getattr(home, name), text)
        for home in (names, event_reasons, dialect_names, claim_names)
        for name, text in docstrings(ROOT / f"{home.__name__.replace('.', '/')}.py").items()
    )
    # Groups of names are not names themselves.
    known = [(home, name, text) for home, name, text in spelled if isinstance(name, str)]
    rows = [
        (code(name), prose(text))
        for home, name, text in known
        if which == ("reasons" if home is event_reasons else _table_of(name))
    ]
    return table(("name", "meaning"), rows)


def _table_of(name: str) -> str:
    domain, slash, _ = name.partition("/")
    if slash and domain == names.HOLD.partition("/")[0]:
        return "state"
    if slash and domain == names.CHECKPOINT_AT.partition("/")[0]:
        return "keys"
    return "objects" if _OURS.search(name) else "foreign"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "states": states_table,
    "commands": commands_table,
    "commands-options": shared_options_table,
    "settings-node-agent": lambda: settings_table(AGENT.settings),
    "settings-extender": lambda: settings_table(EXTENDER.settings),
    "settings-server": lambda: settings_table(SERVER.settings),
    "settings-controller": lambda: settings_table(CONTROLLER.settings),
    "settings-uninstaller": lambda: settings_table(UNINSTALLER.settings),
    "metrics-node-agent": lambda: metrics_table(AGENT),
    "metrics-extender": lambda: metrics_table(EXTENDER),
    "metrics-server": lambda: metrics_table(SERVER),
    "metrics-controller": lambda: metrics_table(CONTROLLER),
    "events": events_table,
    "problems": problems_table,
    "rejections": rejections_table,
    "placements": placements,
    "scheduler-dedicated": scheduler.dedicated,
    "scheduler-existing": scheduler.existing,
    "rules": rules_table,
    "booking-rules": booking_rules_table,
    "limits": limits_table,
    "xids": xid_table,
    "health": health_table,
    "health-states": health_states_table,
    "names-keys": lambda: names_table("keys"),
    "names-state": lambda: names_table("state"),
    "names-objects": lambda: names_table("objects"),
    "names-foreign": lambda: names_table("foreign"),
    "names-reasons": lambda: names_table("reasons"),
    "decisions": decisions_table,
    "rooms": rooms_diagram,
    "life": life_diagram,
    "steps": steps_table,
    "versions": versions_table,
    "distributions": distributions_table,
}
"""Name in a marker -> its table."""


def main() -> int:
    """Write the documents and diagrams; the exit code."""
    logs.configure(level="error", style="console")
    for document in DOCUMENTS:
        text = document.read_text()
        fresh = render(text)
        if fresh != text:
            document.write_text(fresh)
        state = "has changed" if fresh != text else "is current"
        sys.stdout.write(f"{document.relative_to(ROOT)} {state}\n")
    for name, diagram in diagrams().items():
        (IMAGES / name).write_text(diagram)
    return 0


if __name__ == "__main__":
    sys.exit(main())
