import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from booking.durations import Duration
from booking.policy.policy import Policy
from booking.policy_file import PolicyFile
from booking.policy_source import PERIOD, PolicyFileError
from cluster.fake.clock import FakeClock

GOOD = "defaults: {cooldown: 3d}\n"
BROKEN = "defaults: {cooldown: 3}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(GOOD)
    return file


class Kept:
    """Which policies were in force."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.is_away = False

    def last(self) -> str | None:
        return self.texts[-1] if self.texts else None

    def keep(self, _policy: Policy, text: str) -> bool:
        if not self.is_away:
            self.texts.append(text)
        return not self.is_away


def cooldown(policy: PolicyFile) -> object:
    return policy.current().defaults["cooldown"]


def test_a_changed_file_is_in_force_without_a_restart(path: Path) -> None:
    policy = PolicyFile(path, FakeClock(), history=Kept())
    assert cooldown(policy) == Duration(3)
    path.write_text("defaults: {cooldown: 5d}\n")
    policy.reconcile()
    assert cooldown(policy) == Duration(5)
    assert policy.problem() is None


def test_a_broken_file_is_refused_and_the_last_good_policy_stays(path: Path) -> None:
    policy = PolicyFile(path, FakeClock(), history=Kept())
    before = policy.current()
    path.write_text(BROKEN)
    policy.reconcile()
    assert policy.current() is before
    assert "Line 1, defaults.cooldown" in (policy.problem() or "")
    path.write_text(GOOD)
    policy.reconcile()
    assert policy.problem() is None
    assert policy.current() == before


@pytest.mark.parametrize("harm", ["gone", "a folder", "not UTF-8", "unreadable"])
def test_a_file_that_cannot_be_read_changes_nothing(path: Path, harm: str) -> None:
    policy = PolicyFile(path, FakeClock(), history=Kept())
    path.unlink()
    if harm == "a folder":
        path.mkdir()
    elif harm == "not UTF-8":
        path.write_bytes(b"a: 1\n\xff\xfe")
    elif harm == "unreadable":
        path.symlink_to(path)
    policy.reconcile()
    assert cooldown(policy) == Duration(3)
    assert str(path) in (policy.problem() or "")
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_text(GOOD)
    policy.reconcile()
    assert policy.problem() is None, "the same bytes as before are good again"


def test_a_configmap_that_swaps_its_symbolic_link_is_followed(tmp_path: Path) -> None:
    for name, days in (("..one", 3), ("..two", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(f"defaults: {{cooldown: {days}d}}\n")
        os.utime(tmp_path / name / "policy.yaml", (0, 0))
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    policy = PolicyFile(tmp_path / "policy.yaml", FakeClock(), history=Kept())
    (tmp_path / "..new").symlink_to("..two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    policy.reconcile()
    assert cooldown(policy) == Duration(5)


def test_a_file_that_crashes_the_yaml_reader_changes_nothing(path: Path) -> None:
    policy = PolicyFile(path, FakeClock(), history=Kept())
    path.write_text('zone: "\\UFFFFFFFF"\n')
    policy.reconcile()
    assert cooldown(policy) == Duration(3)
    assert "not YAML" in (policy.problem() or "")


def test_a_refusal_is_logged_once_and_so_is_the_next_policy_in_force(path: Path) -> None:
    policy = PolicyFile(path, FakeClock(), history=Kept())
    with capture_logs() as lines:
        policy.reconcile()
        path.write_text(BROKEN)
        policy.reconcile()
        policy.reconcile()
        path.write_text("defaults: {cooldown: 4d}\n")
        policy.reconcile()
    assert [line["log_level"] for line in lines] == ["error", "info"]
    assert "Line 1" in lines[0]["problem"]
    assert lines[1]["version"] == policy.current().version


def test_a_server_does_not_start_with_a_broken_or_missing_file(path: Path) -> None:
    path.write_text(BROKEN)
    with pytest.raises(PolicyFileError, match="is refused"):
        PolicyFile(path, FakeClock(), history=Kept())
    with pytest.raises(PolicyFileError, match="cannot be read: No such file"):
        PolicyFile(path.with_name("other.yaml"), FakeClock(), history=Kept())


@pytest.mark.parametrize("harm", ["broken", "missing"])
def test_a_server_that_starts_with_such_a_file_uses_the_policy_in_force_last(path: Path, harm: str) -> None:
    kept = Kept("defaults: {cooldown: 5d}\n")
    path.unlink() if harm == "missing" else path.write_text(BROKEN)
    policy = PolicyFile(path, FakeClock(), history=kept)
    assert cooldown(policy) == Duration(5)
    assert str(path) in (policy.problem() or "")
    policy.reconcile()
    assert str(path) in (policy.problem() or "")
    assert len(kept.texts) == 1
    path.write_text(GOOD)
    policy.reconcile()
    assert (cooldown(policy), policy.problem(), kept.last()) == (Duration(3), None, GOOD)


def test_a_last_policy_that_is_no_longer_understood_is_not_used(path: Path) -> None:
    path.write_text(BROKEN)
    with pytest.raises(PolicyFileError, match=r"defaults\.cooldown"):
        PolicyFile(path, FakeClock(), history=Kept("defaults: {warmup: 3d}\n"))


def test_a_policy_that_could_not_be_recorded_applies_and_is_recorded_later(path: Path) -> None:
    kept = Kept()
    policy = PolicyFile(path, FakeClock(), history=kept)
    path.write_text("defaults: {cooldown: 5d}\n")
    kept.is_away = True
    policy.reconcile()
    assert (cooldown(policy), kept.last()) == (Duration(5), GOOD)
    kept.is_away = False
    policy.reconcile()
    assert kept.texts == [GOOD, "defaults: {cooldown: 5d}\n"]
    policy.reconcile()
    assert len(kept.texts) == 2


class Waits:
    """An event of a clock that ends after some waits, and what happens in each."""

    def __init__(self, path: Path) -> None:
        self.texts: Iterator[str] = iter(["defaults: {cooldown: 6d}\n", BROKEN])
        self.path = path
        self.waited: list[float] = []

    def now(self) -> object:
        raise NotImplementedError

    def monotonic(self) -> float:
        raise NotImplementedError

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        text = next(self.texts, None)
        if text is None:
            event.set()
        else:
            self.path.write_text(text)
        return event.is_set()


def test_the_thread_checks_repeatedly_until_it_is_stopped(path: Path) -> None:
    clock = Waits(path)
    policy = PolicyFile(path, clock, history=Kept())
    policy.run(threading.Event())
    assert clock.waited == [PERIOD] * 3
    assert cooldown(policy) == Duration(6)
    assert policy.problem()


def test_an_installation_without_a_file_keeps_its_policy() -> None:
    policy = PolicyFile(None, FakeClock(), default=Policy(defaults={"buffer": 2}))
    assert policy.current().defaults == {"buffer": 2}
    assert policy.problem() is None
