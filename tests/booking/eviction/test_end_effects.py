"""The messages about pods whose booking ends say what the settings will do to them."""

from typing import get_args

import pytest

from booking.eviction import end_effects
from booking.eviction.settings import EndAction, EvictionSettings

ACTIONS: tuple[EndAction, ...] = get_args(EndAction)
STAY = "stay, but must leave whenever a booked pod needs their GPUs."


def messages(bare: EndAction, owned: EndAction) -> tuple[str, str]:
    terms = EvictionSettings(end_action_without_controller=bare, end_action_with_controller=owned)
    return end_effects.before(terms), end_effects.after(terms)


def test_by_default_bare_pods_come_back_without_a_gpu_and_pods_of_controllers_stay() -> None:
    assert end_effects.before(EvictionSettings()) == (
        "Its bare pods end with it and come back without a GPU: save your work first."
        " Its pods of controllers, such as Jobs, stay, but must leave whenever a booked pod needs their GPUs."
    )
    assert end_effects.after(EvictionSettings()) == (
        "Its bare pods end now and come back without a GPU."
        " Its pods of controllers, such as Jobs, stay, but must leave whenever a booked pod needs their GPUs."
    )


@pytest.mark.parametrize("owned", ACTIONS)
@pytest.mark.parametrize("bare", ACTIONS)
def test_the_messages_say_which_pods_end_and_to_save_work_first(bare: EndAction, owned: EndAction) -> None:
    before, after = messages(bare, owned)
    ends = [action != "demote" for action in (bare, owned)]
    assert before.count(": save your work first.") == before.count(" end with it") == sum(ends)
    assert after.count(" end now") == sum(ends)
    assert ("bare pods end" in after) is ends[0]
    assert (", end now, and their controllers make others, which wait for free GPUs." in after) is ends[1]
    assert ("come back without a GPU" in after) is (bare == "recreate-without-gpu")
    assert ("do not come back" in after) is (bare == "delete")
    assert (STAY in after) is not all(ends)
