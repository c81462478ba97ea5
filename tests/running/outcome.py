"""A plugin of pytest for tests on whole clusters: a broken law ends the session; evidence is kept.

With ``-p tests.running.outcome --outcome=FILE`` it writes down what failed, again after every test: so much
is known of a run that was killed. tests/e2e and tests/long load it without.
"""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final, cast

import msgspec
import pytest

from cluster.process.clock import SystemClock
from devcluster.paths import CHECKOUT
from tests.laws.broken import breach_in
from tests.running import evidence, machine
from tests.running.evidence import WEIGHT
from tests.running.summary import COLUMNS, Section

OPTION: Final = "--outcome"
LOGS: Final = "--outcome-logs"
KEPT: Final = CHECKOUT / ".devcluster" / "logs"
FAILED: Final = 1
"""pytest's exit status where tests failed and nothing else is wrong."""
COLLECTION: Final = "collection"
AFTERWARDS: Final = "afterwards"
"""When something failed that is no part of a test: what tests share came to its end."""
FAILURES: Final = (Exception, BaseExceptionGroup, pytest.fail.Exception)
"""What a fixture may raise at its end."""
_NAME: Final = "tests.running.outcome"


class Failure(msgspec.Struct, frozen=True):
    """Something that failed.

    Args:
        test: pytest's id of the test.
        when: ``collection``, ``setup``, ``call``, ``teardown`` or ``afterwards``.
        reason: one line.
        law: id of the law that was broken, such as ``L1``.
        at: instant, ISO 8601.
        load: of the last minute.
        steal: percent of the processors' time that was stolen since the session began.
        logs: folder with all logs of its cluster; empty where it had none.
        sections: what to report about it; of the first failure and of a broken law alone.
    """

    test: str
    when: str
    reason: str
    law: str | None = None
    at: str = ""
    load: float = 0.0
    steal: float = 0.0
    logs: str = ""
    sections: tuple[Section, ...] = ()

    @property
    def name(self) -> str:
        """The test without its file."""
        return self.test.partition("::")[2] or self.test


class Played(msgspec.Struct, frozen=True):
    """What became of a run's tests.

    Args:
        failures: what failed, in its order.
        skipped: how many were.
        passed: how many did.
        unplayed: how many were collected and did not come to their turn.
        seed: of the order of the tests.
    """

    failures: tuple[Failure, ...] = ()
    skipped: int = 0
    passed: int = 0
    unplayed: int = 0
    seed: int | None = None


def arguments(file: Path, logs: Path = KEPT) -> list[str]:
    """Of the command line: what failed is written to a file, logs of its cluster below a folder."""
    return ["-p", _NAME, f"{OPTION}={file}", f"{LOGS}={logs}"]


def read(file: Path) -> Played | None:
    """What was written; None where pytest did not get so far."""
    return msgspec.json.decode(file.read_bytes(), type=Played) if file.exists() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write."""
    parser.addoption(OPTION, type=Path, help="a file for what failed, as JSON")
    parser.addoption(LOGS, type=Path, default=KEPT, help="a folder for logs of clusters whose tests failed")


class Recorder:
    """One session."""

    def __init__(self, session: pytest.Session) -> None:
        config = session.config
        self._session = session
        self._file: Path | None = config.getoption(OPTION, None)
        self._logs: Path = config.getoption(LOGS, KEPT)
        self._seed: int | None = config.getoption("randomly_seed", None)
        self._since = machine.processor_times()
        self._failures: dict[tuple[str, bool], Failure] = {}
        self._ended: dict[str, str] = {}
        self._evidence: dict[str, evidence.Evidence] = {}
        self._last = ""

    # --- what happens --------------------------------------------------------------------------------
    def collected(self) -> None:
        """All tests are known, none was played."""
        self._write()

    def could_not_collect(self, report: pytest.CollectReport) -> None:
        """A file could not be read, or the like."""
        self._failed(report.nodeid, COLLECTION, report.longreprtext.splitlines()[-1:], None)

    def reported(self, report: pytest.TestReport) -> None:
        """A phase of a test is over."""
        self._last = report.nodeid
        if report.when == "call" or not report.passed:
            self._ended[report.nodeid] = "skipped" if report.skipped else report.outcome
        self._write()

    def collect_evidence(self, item: pytest.Item) -> None:
        """See to it that the present state is known when something fails that makes it vanish."""
        if item.nodeid not in self._evidence:
            self._evidence[item.nodeid] = evidence.collect(item, self._logs)

    def drop_evidence(self, item: pytest.Item) -> None:
        """A test came to its end; keep nothing of one in which nothing failed."""
        if (item.nodeid, False) not in self._failures and item.nodeid in self._evidence:
            self._evidence.pop(item.nodeid).discard()

    def phase_failed(
        self, item: pytest.Item, when: str, error: BaseException | None, report: pytest.TestReport
    ) -> None:
        """A phase of a test failed; the session ends where a law was broken."""
        self.collect_evidence(item)
        self._failed(item.nodeid, when, report.longreprtext.splitlines(), error)

    def session_failed(self, error: BaseException) -> None:
        """What all tests share could not be brought to its end."""
        self._failed(self._last, AFTERWARDS, str(error).splitlines(), error)
        self._write()

    # --- inside --------------------------------------------------------------------------------------
    def _failed(self, test: str, when: str, lines: list[str], error: BaseException | None) -> None:
        breach = breach_in(error)
        law = breach.law if breach else None
        if breach and not self._session.shouldfail:
            self._session.shouldfail = f"law {law} broken in {test}"
        key = (test, when == AFTERWARDS)
        before = self._failures.get(key)
        if before is not None and (before.law or not law):
            return
        reason = evidence.reason_of(breach or error) or next((line for line in reversed(lines) if line), "")
        collected = self._evidence.get(test, evidence.NOTHING)
        # What led to a broken law has the newest last.
        assertion = Section(
            "assertion", tuple(evidence.assertion_of(lines)), newest=law is not None, weight=WEIGHT
        )
        is_first = not self._failures or next(iter(self._failures)) == key
        self._failures[key] = Failure(
            test=test,
            when=when,
            reason=reason[:COLUMNS],
            law=law,
            at=SystemClock().now().isoformat(timespec="seconds"),
            load=machine.load(),
            steal=machine.steal(self._since, machine.processor_times()),
            logs=str(collected.logs or ""),
            sections=collected.sections_with(assertion) if is_first or law else (),
        )
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        ends = list(self._ended.values())
        begun = set(self._ended) | {test for test, _ in self._failures}
        played = Played(
            failures=tuple(self._failures.values()),
            skipped=ends.count("skipped"),
            passed=ends.count("passed"),
            unplayed=sum(item.nodeid not in begun for item in self._session.items),
            seed=self._seed,
        )
        draft = self._file.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(played))
        draft.replace(self._file)


_RECORDER: Final = pytest.StashKey[Recorder]()
_OWN_FAILED: Final = pytest.StashKey[bool]()


def load(config: pytest.Config) -> None:
    """For a conftest.py: have this plugin, unless this is a worker, which has tests of all kinds."""
    if not hasattr(config, "workerinput") and not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(sys.modules[_NAME], _NAME)


def _recorder(session: pytest.Session) -> Recorder:
    if _RECORDER not in session.stash:
        session.stash[_RECORDER] = Recorder(session)
    return session.stash[_RECORDER]


def pytest_collection_finish(session: pytest.Session) -> None:
    """All tests are known."""
    _recorder(session).collected()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Remember what could not be collected."""
    report = yield
    if report.failed:
        _recorder(collector.session).could_not_collect(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A phase is over; read the cluster at this moment where it failed."""
    report = yield
    recorder = _recorder(item.session)
    if report.failed:
        is_shared = call.when == "teardown" and not item.stash.get(_OWN_FAILED, False)
        when = AFTERWARDS if is_shared else call.when
        recorder.phase_failed(item, when, call.excinfo.value if call.excinfo else None, report)
    elif call.when == "teardown":
        recorder.drop_evidence(item)
    recorder.reported(report)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """First what is the test's own, so that it is known when that failed, while the cluster still runs."""
    recorder = _recorder(item.session)
    try:
        item.session._setupstate.teardown_exact(cast("pytest.Item", item.parent))
    except FAILURES as own:
        item.stash[_OWN_FAILED] = True
        recorder.collect_evidence(item)
        try:
            yield
        except FAILURES as shared:
            raise BaseExceptionGroup(
                "The test's own end failed, and what it shares.", [own, shared]
            ) from None
        raise
    if nextitem is None:
        recorder.collect_evidence(item)
    yield


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """What fails now would hide the summary of everything else: it is reported and counted like a test."""
    try:
        yield
    except FAILURES as error:
        _recorder(session).session_failed(error)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"{os.linesep}ERROR at the end of the session: {error!r}{os.linesep}{error}")
