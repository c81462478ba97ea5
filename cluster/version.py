"""The version of the release: of all parts, their images and the chart."""

from typing import Final

VERSION: Final = "0.1.0"
