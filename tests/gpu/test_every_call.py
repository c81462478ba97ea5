"""Every NVML call that we make, on the card."""

import pytest

from deviceplugin.nvml.real import RealNvml
from tests.gpu import calls

pytestmark = pytest.mark.gpu


def test_every_call_is_answered(nvml: RealNvml) -> None:
    calls.every_call_is_answered(nvml)


def test_calls_about_missing_gpus_are_refused(nvml: RealNvml) -> None:
    calls.calls_about_missing_gpus_are_refused(nvml)


def test_no_call_is_answered_after_close(nvml: RealNvml) -> None:
    calls.no_call_is_answered_after_close(nvml)
