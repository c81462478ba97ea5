"""The values that versions of KubeSpawner give the label ``hub.jupyter.org/username`` of a user's pods.

An annotation can carry any raw name, but a label cannot, and versions derive its value in different ways.
From 0.16 to 6.2 every byte but lowercase letters and digits became ``-`` and its hexadecimal number. Since
7.0 a name that is a valid label is used as it is; any other is reduced to its safe letters and a hash, from
which the name cannot be restored. So a label is looked up among the labels of known names, never decoded.

Source: kubespawner 0.16 to 7.1 (``slugs.py``) and escapism, with which the tests compare it.
"""

import hashlib
import re
from typing import Final

LONGEST_LABEL: Final = 63
LONGEST_OBJECT: Final = 48
"""KubeSpawner's limit for names of pods."""
LONGEST_HASHED: Final = 32

_DIGITS_OF_HASH: Final = 8
_BETWEEN: Final = "---"
"""Separates letters and hash. A name with a double hyphen is hashed, so no user can choose such a value."""
_UNSAFE: Final = re.compile(r"[^a-z0-9]")
_HARMFUL: Final = re.compile(r"[^a-z0-9]+")
# Without re.ASCII on purpose: as in KubeSpawner, the long s and the Kelvin sign match inside the label.
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:(?i:[a-z0-9._-]*)[A-Za-z0-9])?")
_OBJECT: Final = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")


def labels_of(name: str) -> frozenset[str]:
    """Every label value that some version gives for this raw user name."""
    return frozenset({escaped(name), safe_label(name), safe_object(name)})


def escaped(name: str) -> str:
    """The label of 0.16 to 6.2: ``alice@kth.se`` becomes ``alice-40kth-2ese``."""
    return _UNSAFE.sub(lambda found: "".join(f"-{byte:x}" for byte in found[0].encode()), name)


def safe_label(name: str) -> str:
    """The label of 7.0 and later: the name itself if it is a valid label, else letters and a hash."""
    is_valid = not name or (len(name) <= LONGEST_LABEL and _LABEL.fullmatch(name))
    return name if is_valid and "--" not in name else _hashed(name, LONGEST_HASHED)


def safe_object(name: str) -> str:
    """The object name of 7.0 and later, which is stricter than a label."""
    is_valid = len(name) <= LONGEST_OBJECT and _OBJECT.fullmatch(name)
    return name if is_valid and "--" not in name else _hashed(name, LONGEST_OBJECT)


def _hashed(name: str, longest: int) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS_OF_HASH]
    return f"{_letters(name, longest - len(_BETWEEN) - len(digest))}{_BETWEEN}{digest}"


def _letters(name: str, longest: int) -> str:
    """The safe characters of the name: they begin with a letter, and are never empty."""
    found = _HARMFUL.sub("-", name.lower()).lstrip("-")[:longest].rstrip("-")
    if found and not found[0].isalpha():
        found = f"x-{found[: longest - 2]}"
    return found or "x"
