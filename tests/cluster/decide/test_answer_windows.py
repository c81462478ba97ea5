"""How many pods may wait for a kubelet's answer at one time."""

from hypothesis import example, given
from hypothesis import strategies as st

from cluster.decide.answer_windows import SILENT_AFTER
from cluster.decide.serving import ANSWERED_WITHIN, MISSED_AFTER
from tests.cluster.decide.test_serving import Node

WINDOW = 4
STEPS = ("bind", "bind", "admitted", "rejected", "silence", "late lease", "renewed")


@example(["bind", "admitted", "bind", "admitted", "late lease", "bind", "bind"])
@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_no_more_pods_are_unanswered_than_have_been_answered_in_a_row_nor_than_the_window(
    history: list[str],
) -> None:
    node, unanswered, now, in_a_row = Node(WINDOW), list[float](), 0.0, 0
    node.renews(now)
    for step in history:
        now += 0.01
        # A kubelet that says nothing for so long keeps nobody off, if its agent lives.
        unanswered = [since for since in unanswered if now - since < ANSWERED_WITHIN / 2]
        if step == "bind":
            if not node.serving.is_full("n0", unanswered, monotonic=now):
                unanswered.append(now)
                assert len(unanswered) <= min(WINDOW, in_a_row + 1)
        elif step == "admitted" and unanswered:
            unanswered.pop(0)
            node.serving.windows.widen("n0")
            in_a_row += 1
        elif step == "rejected" and unanswered:
            unanswered.clear()
            node.rejects(now, uid=f"p{now}")
            in_a_row = 0
        elif step == "silence" and unanswered:
            now += SILENT_AFTER
            assert node.serving.is_full("n0", unanswered, monotonic=now) or not unanswered
            in_a_row = 0
        elif step == "late lease":
            now += MISSED_AFTER
            assert node.serving.is_full("n0", unanswered, monotonic=now) or not unanswered
            node.renews(now)
            in_a_row = 0
        elif step == "renewed":
            node.renews(now)


def test_windows_of_one_bind_one_pod_after_the_other() -> None:
    node = Node(1)
    node.renews(0)
    for _ in range(3):
        assert not node.serving.is_full("n0", [], monotonic=1)
        assert node.serving.is_full("n0", [0.9], monotonic=1)
        node.serving.windows.widen("n0")


def test_a_silence_that_nobody_asked_about_meanwhile_closes_the_window_all_the_same() -> None:
    node = Node(WINDOW)
    for _ in range(WINDOW):
        node.serving.windows.widen("n0")
    later = ANSWERED_WITHIN + 10
    node.renews(later)
    assert not node.serving.is_full("n0", [0.0], monotonic=later)
    assert node.serving.windows.size("n0") == 1
    assert node.serving.is_full("n0", [0.0, later], monotonic=later)
