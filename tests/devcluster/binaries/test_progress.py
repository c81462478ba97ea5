import io
from collections.abc import Sequence
from pathlib import Path

from cluster.fake.clock import FakeClock
from devcluster.binaries.progress import Counter, Progress, ProgressLine, Whole, places

FIXTURES = Path(__file__).parents[2] / "fixtures" / "go"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, steps: Sequence[tuple[float, Progress]]) -> str:
    clock = FakeClock()
    line = ProgressLine(stream, clock)
    for seconds, progress in steps:
        clock.advance(seconds)
        line(progress)
    return stream.getvalue()


def test_a_cold_build_counts_every_package_and_ends_with_linking() -> None:
    counter = Counter("cni v1", (FIXTURES / "cni_listing_cold.txt").read_text())
    assert counter.progress == Progress("cni v1", "compiling", done=0, known=158)
    lines = (FIXTURES / "cni_build_cold.txt").read_text().splitlines()
    for line in lines[:100]:
        counter.line(line)
    assert counter.progress == Progress("cni v1", "compiling", done=100, known=158)
    for line in lines[100:]:
        counter.line(line)
    assert counter.progress == Progress("cni v1", "linking")


def test_a_build_from_gos_cache_has_nothing_to_compile_and_only_links() -> None:
    counter = Counter("cni v1", (FIXTURES / "cni_listing_warm.txt").read_text())
    assert counter.progress == Progress("cni v1", "linking")


def test_packages_of_a_half_warm_cache_are_reported_separately() -> None:
    cold = (FIXTURES / "cni_listing_cold.txt").read_text().splitlines()
    warm = (FIXTURES / "cni_listing_warm.txt").read_text().splitlines()
    counter = Counter("cni v1", "\n".join(warm[:100] + cold[100:]))
    assert str(counter.progress) == "cni v1: compiling 0 of 59 (99 more from Go's cache)"


def test_other_output_of_go_is_not_counted_and_a_package_counts_once() -> None:
    counter = Counter("x", "a true stale dependency: b\nb true build ID mismatch\n")
    counted = [counter.line(line) for line in ("go: downloading b v1.0.0", "", "# b", "b", "b")]
    assert counted == [False, False, False, True, False]
    assert counter.progress.done == 1


def test_a_terminal_shows_one_line_that_is_overwritten_until_the_end() -> None:
    steps = [
        (0, Progress("etcd", "compiling", done=1, known=3)),
        (1, Progress("etcd", "compiling", done=2, known=3)),
        (64, Progress("etcd", "done")),
        (0, Progress("runc", "linking")),
    ]
    assert shown(Terminal(), steps) == (
        "\retcd: compiling 1 of 3 [0:00]\x1b[K"
        "\retcd: compiling 2 of 3 [0:01]\x1b[K"
        "\retcd: done [1:05]\x1b[K\n"
        "\rrunc: linking [0:00]\x1b[K"
    )


def test_a_step_that_never_ended_keeps_its_line_on_a_terminal() -> None:
    steps = [(0.0, Progress("binaries", "waiting")), (1.0, Progress("etcd", "linking"))]
    assert shown(Terminal(), steps) == "\rbinaries: waiting [0:00]\x1b[K\netcd: linking [0:00]\x1b[K"


def test_a_pipe_gets_a_line_when_something_begins_and_every_twenty_seconds() -> None:
    steps = [(5.0, Progress("etcd", "compiling", done=done, known=99)) for done in range(10)]
    steps.append((1.0, Progress("etcd", "linking")))
    assert shown(io.StringIO(), steps).splitlines() == [
        "etcd: compiling 0 of 99 [0:00]",
        "etcd: compiling 4 of 99 [0:20]",
        "etcd: compiling 8 of 99 [0:40]",
        "etcd: linking [0:46]",
    ]


HOUR_OF_WORK = [46.0, 12.0, 3.0, 61.0, 110.0, 397.0]


def test_a_run_of_several_tools_is_one_line_with_one_clock_until_all_are_made() -> None:
    first, second = places([60.0, 60.0])
    steps = [
        (0.0, Progress("etcd", "compiling", done=0, known=9, whole=first)),
        (60.0, Progress("etcd", "done", whole=first)),
        (0.0, Progress("runc", "compiling", done=0, known=9, whole=second)),
        (60.0, Progress("runc", "done", whole=second)),
    ]
    assert shown(Terminal(), steps) == (
        "\r1 of 2 tools, 0:00 of about 2:00: etcd: compiling 0 of 9\x1b[K"
        "\r1 of 2 tools, 1:00 of about 2:00: etcd: done\x1b[K"
        "\r2 of 2 tools, 1:00 of about 2:00: runc: compiling 0 of 9\x1b[K"
        "\r2 of 2 tools, 2:00 of about 2:00: runc: done\x1b[K\n"
    )


def test_a_pipe_gets_a_line_for_each_tool_of_a_run_and_its_end() -> None:
    (only,) = places([60.0])
    doing = ("reading packages", "fetching modules", "compiling", "linking", "done")
    steps = [(1.0, Progress("etcd", each, whole=only)) for each in doing]
    assert [line.split()[-1] for line in shown(io.StringIO(), steps).splitlines()] == ["packages", "done"]


def test_the_estimate_of_the_whole_follows_the_pace_of_this_machine() -> None:
    *_, helm, kubernetes = places(HOUR_OF_WORK)
    assert helm == Whole(5, 6, 122.0, 110.0, 397.0)
    assert round(kubernetes.total(232.0, 0.0)) == sum(HOUR_OF_WORK)
    assert kubernetes.total(464.0, 0.0) > 1.5 * sum(HOUR_OF_WORK)  # half as fast
    assert kubernetes.total(900.0, 1.0) == 900.0


def test_what_gos_cache_has_counts_as_compiled() -> None:
    half = Progress("etcd", "compiling", done=0, known=50, cached=50)
    assert 0.4 < half.fraction < 0.5
