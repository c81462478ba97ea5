"""The version of all parts, of their images and of the chart: one release."""

from typing import Final

VERSION: Final = "0.1.0"
