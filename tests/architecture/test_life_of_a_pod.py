"""The diagram in docs/reclaiming.md shows everything that may happen to a pod that must leave."""

from typing import get_args

from booking.reclaimer.evictions.comeback import MEANINGS, Step
from docs.tables.life import AROUND, BACK, EFFECTS, GONE, MUST_LEAVE, RUNS, State, edges, label, step_in

DRAWN = [*edges()]
STATES = dict.fromkeys(state for a, b, _ in DRAWN for state in (a, b))
STILL = {"wait", "done", "restore"}
"""Steps that lead nowhere, or that mend what somebody else has broken."""


def test_every_step_that_leads_somewhere_is_on_an_arrow() -> None:
    assert {why for _, _, why in DRAWN} & {*get_args(Step)} == {*MEANINGS} - STILL == {*EFFECTS}


def test_different_states_have_different_names() -> None:
    assert len({label(state) for state in STATES}) == len(STATES)


def test_every_path_ends_with_a_pod_that_runs_on_is_back_or_is_gone_for_good() -> None:
    ends = {state for state in STATES if step_in(state) in ("wait", "done")} - {
        state for state, _, why in DRAWN if why == "its containers end"
    }
    assert ends == {RUNS, BACK, GONE}


def test_every_state_leads_to_a_final_state() -> None:
    reached: set[State] = {RUNS, BACK, GONE}
    while more := {a for a, b, _ in DRAWN if b in reached} - reached:
        reached |= more
    assert reached == {*STATES}


def test_the_surrounding_steps_begin_and_end_at_states_of_the_diagram() -> None:
    names = {label(state) for state in (MUST_LEAVE, RUNS, BACK, GONE)}
    assert names <= {name for a, b, _ in AROUND for name in (a, b)}
