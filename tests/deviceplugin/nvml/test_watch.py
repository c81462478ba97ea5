"""The watching thread, step by step on a virtual clock."""

from collections.abc import Callable

from deviceplugin.nvml.port import EventKind, GpuEvent, MigFacts
from deviceplugin.nvml.watch import GpuWatch, Report
from tests.fakes.nvml import MemoryNvml, a_gpu, no_driver, no_library, xid

Step = Callable[[], GpuEvent | None]


def nothing() -> None:
    """A wait in which nothing happens."""


def watched(nvml: MemoryNvml, *script: Step) -> list[Report]:
    """What is reported while the script happens."""
    nvml.script.extend(script)
    told: list[Report] = []
    GpuWatch(nvml, lambda _: 0, told.append, clock=nvml).run(nvml.stop)
    return told


def reasons(report: Report) -> dict[str, str | None]:
    return {device.uuid: device.published.reason for device in report.devices}


def test_the_gpus_are_reported_at_once() -> None:
    told = watched(MemoryNvml([a_gpu(0), a_gpu(1)]))
    assert [reasons(report) for report in told] == [{"GPU-0": None, "GPU-1": None}]
    assert told[0].problem is None


def test_a_gpu_whose_events_cannot_be_had_is_told_and_probed_all_the_same() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    nvml.gpus[0].deaf = True

    def lose() -> None:
        nvml.gpus[0].lost = True

    told = watched(nvml, lose, *[nothing] * 10)
    assert told[1].deaf == ("Events of GPU-0 cannot be had: No permission.",)
    assert reasons(told[2])["GPU-0"] == "The GPU is lost"


def test_nothing_new_is_not_reported_again() -> None:
    assert len(watched(MemoryNvml([a_gpu(0)]), *[nothing] * 50)) == 1


def test_a_critical_xid_is_reported_and_a_quiet_minute_later_it_is_over() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    told = watched(nvml, lambda: xid("GPU-0", 48), *[nothing] * 70)
    assert [reasons(report)["GPU-0"] for report in told] == [None, "XID 48: double-bit memory error", None]
    assert [reasons(report)["GPU-1"] for report in told] == [None, None, None]


def test_an_xid_of_a_program_is_not_reported() -> None:
    assert len(watched(MemoryNvml([a_gpu(0)]), lambda: xid("GPU-0", 31))) == 1


def test_a_gpu_lost_without_an_event_is_noticed_and_back_when_it_answers() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    def come_back() -> None:
        nvml.gpus[0].lost = False

    told = watched(nvml, lose, *[nothing] * 3, come_back, *[nothing] * 10)
    assert [reasons(report)["GPU-0"] for report in told] == [None, "The GPU is lost", None]
    assert all(reasons(report)["GPU-1"] is None for report in told)


def test_a_gpu_that_is_lost_under_a_driver_without_recovery_actions_is_noticed() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    nvml.gpus[0].old = True

    def lose() -> None:
        nvml.gpus[0].lost = True

    told = watched(nvml, lose, *[nothing] * 10)
    assert [reasons(report)["GPU-0"] for report in told] == [None, "The GPU is lost"]


def test_events_of_the_others_are_heard_while_one_is_lost() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    nvml.gpus[0].lost = True
    told = watched(nvml, nothing, lambda: xid("GPU-1", 79))
    assert reasons(told[-1]) == {"GPU-1": "XID 79: GPU has fallen off the bus"}


def test_a_wait_that_fails_is_paused_and_never_loops_hot() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    watched(nvml, lose, *[nothing] * 20)
    assert nvml.waits <= 22
    assert nvml.seconds >= 20


def test_a_wanted_reset_is_reported_and_over_when_the_driver_asks_for_nothing() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def ask(action: int) -> Step:
        def step() -> GpuEvent:
            nvml.gpus[0].action = action
            return GpuEvent("GPU-0", EventKind.RECOVERY_ACTION, action)

        return step

    told = watched(nvml, ask(1), ask(0))
    assert [reasons(report)["GPU-0"] for report in told] == [
        None,
        "The driver asks for a reset of the GPU",
        None,
    ]


def test_a_change_of_mig_is_read_afresh() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def divide() -> GpuEvent:
        nvml.gpus[0].mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
        return GpuEvent("GPU-0", EventKind.MIG_CHANGED, 0)

    told = watched(nvml, divide)
    assert [sorted(reasons(report)) for report in told] == [["GPU-0"], ["GPU-0", "MIG-1"]]


def test_without_a_library_it_says_so_once_and_keeps_looking() -> None:
    nvml = MemoryNvml([a_gpu(0)], fault=no_library())

    def install() -> None:
        nvml.fault = None

    told = watched(nvml, nothing, nothing, install, nothing)
    assert [(report.problem, len(report.devices)) for report in told] == [
        ("There is no NVML library", 0),
        (None, 1),
    ]


def test_while_all_gpus_answer_nvml_is_not_initialised_again_and_again() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    watched(nvml, *[nothing] * 600)
    assert nvml.opened == 1


def test_while_a_gpu_is_lost_nvml_is_initialised_again_every_minute() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    watched(nvml, lose, *[nothing] * 200)
    assert nvml.opened == 4


def test_a_driver_that_goes_away_makes_all_gpus_unhealthy_until_it_is_back() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def unload() -> None:
        nvml.fault = no_driver()

    def load() -> None:
        nvml.fault = None

    told = watched(nvml, unload, *[nothing] * 3610, load, nothing)
    assert [report.problem for report in told] == [None, "The NVIDIA driver is not loaded", None]
    assert [reasons(report)["GPU-0"] for report in told] == [None, "The NVIDIA driver is not loaded", None]


def test_a_node_without_gpus_says_so_and_finds_one_that_comes() -> None:
    nvml = MemoryNvml([])

    def plug() -> None:
        nvml.gpus.append(a_gpu(0))

    told = watched(nvml, nothing, plug, nothing)
    assert [(report.problem, len(report.devices)) for report in told] == [
        ("NVML lists no GPU on this node.", 0),
        (None, 1),
    ]


def test_a_new_gpu_is_found_at_the_next_initialisation() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def plug() -> None:
        nvml.gpus.append(a_gpu(1))

    told = watched(nvml, plug, *[nothing] * 3610)
    assert [sorted(reasons(report)) for report in told] == [["GPU-0"], ["GPU-0", "GPU-1"]]


def test_a_gpu_that_cannot_be_read_for_a_while_is_read_afresh() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def spoil() -> GpuEvent:
        nvml.gpus[0].broken = True
        return GpuEvent("GPU-0", EventKind.MIG_CHANGED, 0)

    def repair() -> None:
        nvml.gpus[0].broken = False

    told = watched(nvml, spoil, repair, *[nothing] * 10)
    assert [reasons(report)["GPU-0"] for report in told] == [
        None,
        "nvmlDeviceGetName answers Unknown Error",
        None,
    ]


def test_waits_that_fail_for_ever_are_no_silence() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)], waiting_fails=True)
    watch = GpuWatch(nvml, lambda _: 0, lambda _: None, clock=nvml)
    silences: list[float] = []
    nvml.script.extend([lambda: silences.append(watch.silent_for())] * 200)
    watch.run(nvml.stop)
    assert max(silences) <= 10


def test_silence_is_measured_since_nvml_last_gave_control_back() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    watch = GpuWatch(nvml, lambda _: None, lambda _: None, clock=nvml)
    nvml.seconds += 30
    assert watch.silent_for() == 30
    watch.run(nvml.stop)
    assert watch.silent_for() == 0
