"""The state machine of a GPU's health, as the node agent runs it."""

from typing import Final

from deviceplugin.nvml import xids
from deviceplugin.nvml.health import TABLE, HealthSignal, State
from docs.tables.markdown import ROOT, code, docstrings, prose, table

_SOURCE: Final = ROOT / "deviceplugin" / "nvml" / "health.py"


def health_table() -> str:
    """Signal by state: the state that follows."""
    meanings = docstrings(_SOURCE, "HealthSignal")
    return table(
        ("signal", *(code(state.value) for state in State), "what it is"),
        (
            (
                code(signal.value),
                *(_after(state, signal) for state in State),
                prose(meanings[signal.name]),
            )
            for signal in HealthSignal
        ),
    )


def health_states_table() -> str:
    """Every state of a GPU's health."""
    meanings = docstrings(_SOURCE, "State")
    return table(("state", "what it is"), ((code(s.value), prose(meanings[s.name])) for s in State))


def xid_table() -> str:
    """Every XID whose meaning is known, and what it does to a GPU."""
    kinds = (
        (xids.CRITICAL, "unhealthy"),
        (xids.APPLICATION, "stays healthy: the error of one program"),
        (xids.ANNOUNCEMENTS, "stays healthy, unless the driver asks for a recovery action"),
    )
    rows = sorted(
        (xid, meaning, "unhealthy until a reset" if xid in xids.NEEDS_RESET else effect)
        for found, effect in kinds
        for xid, meaning in found.items()
    )
    return table(
        ("XID", "meaning", "the GPU"),
        [*((str(xid), meaning, effect) for xid, meaning, effect in rows), ("any other", "", "unhealthy")],
    )


def _after(state: State, signal: HealthSignal) -> str:
    after = TABLE[state][signal]
    return "" if after is state else after.value
