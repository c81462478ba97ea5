"""A machine with an NVIDIA driver, or a loud skip that says what is missing. The card is only read."""

from collections.abc import Iterator

import pytest

from deviceplugin.nvml.port import NvmlError
from deviceplugin.nvml.real import RealNvml


@pytest.fixture
def nvml() -> Iterator[RealNvml]:
    real = RealNvml()
    try:
        real.open()
    except NvmlError as error:
        pytest.skip(f"NO REAL GPU HERE, nothing was tested on hardware: {error}")
    if real.count() == 0:
        real.close()
        pytest.skip("NO REAL GPU HERE, nothing was tested on hardware: the driver shows no GPU")
    yield real
    real.close()
