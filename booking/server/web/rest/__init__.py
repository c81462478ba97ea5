"""The REST API: one table of routes, from which the server's paths and the OpenAPI document are made."""

from typing import Final

NAME: Final = "rest"
"""Name of the blueprint: Flask puts it before every endpoint's name."""
