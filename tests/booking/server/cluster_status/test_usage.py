"""How GPUs are used, as each person may see it."""

from datetime import datetime, timedelta
from typing import Final

import pytest

from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server.cluster_status.usage import OLD_AFTER, SquatterNow, Used, UseNow
from booking.server.cluster_status.viewer import Viewer
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, encode_use
from tests.fakes.objects import EPOCH

GPU: Final = "GPU-n0-0"
OTHER: Final = "GPU-n0-1"
SECOND: Final = timedelta(seconds=1)
ALICE: Final = Principal(user="alice", name="alice@example.com")
BOB: Final = Principal(user="bob", name="bob@example.com")
ADMINISTRATOR: Final = Principal(user="bob", name="bob@example.com", is_administrator=True)

MEASURED: Final = DeviceUsage(
    uuid=GPU, utilisation=87, memory=40213, temperature=61, power=288, pods={"uid-train": 40100}
)
OF_A_POD: Final = Squatter(
    device=GPU,
    pid=4711,
    command="python3",
    memory=2048,
    uid="uid-x",
    namespace="vision",
    name="x",
    user="alice",
)
OF_NO_POD: Final = Squatter(device=GPU, pid=4712, command="nvtop")


def used(
    *,
    at: datetime = EPOCH,
    devices: tuple[DeviceUsage, ...] = (MEASURED,),
    squatters: tuple[Squatter, ...] = (OF_A_POD, OF_NO_POD),
    who: Principal = ALICE,
    visibility: Visibility = "load",
) -> Used:
    """What an agent reported at an instant, read at ``EPOCH``."""
    text = encode_use(NodeUsage(at=at, devices=devices, squatters=squatters))
    return Used(text, EPOCH, Viewer(who, visibility))


def test_a_measured_device_is_shown_in_the_units_of_its_names() -> None:
    assert used().of(GPU) == UseNow(
        utilisation_percent=87, memory_used_mib=40213, temperature_celsius=61, power_watts=288
    )


def test_measurements_that_a_card_does_not_report_are_null_and_not_zero() -> None:
    assert used(devices=(DeviceUsage(uuid=GPU, utilisation=0),)).of(GPU) == UseNow(
        utilisation_percent=0, memory_used_mib=None, temperature_celsius=None, power_watts=None
    )


@pytest.mark.parametrize(
    ("uuid", "pod", "mib"),
    [(GPU, "uid-train", 40100), (GPU, "uid-other", None), (OTHER, "uid-train", None)],
    ids=["its pod", "another pod", "another device"],
)
def test_memory_is_counted_for_one_pod_on_one_device(uuid: str, pod: str, mib: int | None) -> None:
    assert used().memory(uuid, pod) == mib


def test_a_device_with_unknown_processes_has_no_memory_of_a_pod() -> None:
    assert used(devices=(DeviceUsage(uuid=GPU, memory=1),)).memory(GPU, "uid-train") is None


def test_the_use_of_a_device_that_was_not_measured_is_unknown() -> None:
    assert used().of(OTHER) is None
    assert used().squatters(OTHER) == ()


@pytest.mark.parametrize(
    ("age", "is_shown"),
    [
        (OLD_AFTER - SECOND, True),
        (OLD_AFTER, False),
        (-(OLD_AFTER - SECOND), True),
        (-OLD_AFTER, False),
    ],
    ids=["almost old", "old", "of a clock ahead", "of a clock far ahead"],
)
def test_neither_old_nor_future_measurements_are_shown(age: timedelta, *, is_shown: bool) -> None:
    found = used(at=EPOCH - age)
    assert (found.of(GPU) is not None) == is_shown
    assert (found.memory(GPU, "uid-train") is not None) == is_shown
    assert bool(found.squatters(GPU)) == is_shown


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"at": "2026-11-23T09:00:00"}'])
def test_an_unreadable_measurement_is_unknown(text: str | None) -> None:
    found = Used(text, EPOCH, Viewer(ADMINISTRATOR, "names"))
    assert (found.of(GPU), found.memory(GPU, "uid-train"), found.squatters(GPU)) == (None, None, ())


NAMED: Final = ("vision", "x", "alice")
NAMELESS: Final = (None, None, None)
DETAILS: Final = (4711, "python3")
NO_DETAILS: Final = (None, None)


@pytest.mark.parametrize(
    ("who", "visibility", "names", "details"),
    [
        (ALICE, "load", NAMED, NO_DETAILS),
        (BOB, "load", NAMELESS, NO_DETAILS),
        (BOB, "names", NAMED, NO_DETAILS),
        (ADMINISTRATOR, "load", NAMED, DETAILS),
    ],
    ids=["its owner", "another user", "another user, where names are shown", "an administrator"],
)
def test_a_squatter_is_named_only_where_the_policy_allows_it(
    who: Principal,
    visibility: Visibility,
    names: tuple[str | None, ...],
    details: tuple[int | None, str | None],
) -> None:
    namespace, name, user = names
    pid, command = details
    assert used(who=who, visibility=visibility).squatters(GPU)[0] == SquatterNow(
        of_pod=True, namespace=namespace, name=name, user=user, pid=pid, command=command, memory_used_mib=2048
    )


def test_a_process_without_a_pod_has_no_user_and_only_administrators_see_its_details() -> None:
    for who, pid, command in ((ALICE, None, None), (ADMINISTRATOR, 4712, "nvtop")):
        assert used(who=who).squatters(GPU)[1] == SquatterNow(
            of_pod=False, namespace=None, name=None, user=None, pid=pid, command=command, memory_used_mib=None
        )


def test_a_pod_that_is_gone_is_named_by_its_uid() -> None:
    gone = Squatter(device=GPU, pid=1, uid="uid-gone", user="alice")
    (shown,) = used(squatters=(gone,)).squatters(GPU)
    assert (shown.of_pod, shown.name, shown.namespace) == (True, "uid-gone", None)


def test_the_processes_of_a_device_keep_the_order_of_the_report() -> None:
    pids = [7, 3, 5]
    of_several = tuple(Squatter(device=device, pid=pid) for pid in pids for device in (OTHER, GPU))
    assert [one.pid for one in used(squatters=of_several, who=ADMINISTRATOR).squatters(GPU)] == pids
