"""Every NVML call that we make, on the card."""

import pytest

from deviceplugin.nvml.real import RealNvml
from tests.gpu import calls

pytestmark = pytest.mark.gpu


def test_every_call_is_answered(nvml: RealNvml) -> None:
    calls.every_call_is_answered(nvml)


def test_who_is_not_there_is_refused(nvml: RealNvml) -> None:
    calls.who_is_not_there_is_refused(nvml)


def test_nothing_is_answered_after_the_end(nvml: RealNvml) -> None:
    calls.nothing_is_answered_after_the_end(nvml)
