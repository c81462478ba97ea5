"""The one error of everything that builds: used by the binaries and the images."""


class BuildError(Exception):
    """Something could not be built; the message says what, why and what to do."""
