"""The values that KubeSpawner has given to the label ``hub.jupyter.org/username`` of a user's pods.

Annotations carry the raw name; a label may not, and each version has made another value of it. From 0.16 to
6.2 every byte that is no small letter or digit became ``-`` and its hexadecimal number; since 7.0 a name that
is a valid label stays as it is, and any other becomes its harmless letters and a hash, from which nobody can
read the name. So a label is looked up among the labels of known names, never decoded.

Source: kubespawner 0.16 to 7.1 (``slugs.py``) and escapism, which the tests ask for comparison.
"""

import hashlib
import re
from typing import Final

LONGEST_LABEL: Final = 63
LONGEST_OBJECT: Final = 48
"""What KubeSpawner allows itself for names of pods."""
LONGEST_HASHED: Final = 32

_DIGITS_OF_HASH: Final = 8
_BETWEEN: Final = "---"
"""Between letters and hash; a name with a double hyphen is hashed, so a user cannot choose such a value."""
_UNSAFE: Final = re.compile(r"[^a-z0-9]")
_HARMFUL: Final = re.compile(r"[^a-z0-9]+")
# Without ASCII on purpose: as in KubeSpawner, the long s and the sign of Kelvin count as letters inside.
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:(?i:[a-z0-9._-]*)[A-Za-z0-9])?")
_OBJECT: Final = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")


def labels_of(name: str) -> frozenset[str]:
    """Every value that some version has given, or gives to related names, for this raw user name."""
    return frozenset({escaped(name), safe_label(name), safe_object(name)})


def escaped(name: str) -> str:
    """As 0.16 to 6.2 did it: ``alice@kth.se`` is ``alice-40kth-2ese``."""
    return _UNSAFE.sub(lambda found: "".join(f"-{byte:x}" for byte in found[0].encode()), name)


def safe_label(name: str) -> str:
    """As 7.0 and later do it: the name itself where it is a valid label, else letters and a hash."""
    is_valid = not name or (len(name) <= LONGEST_LABEL and _LABEL.fullmatch(name))
    return name if is_valid and "--" not in name else _hashed(name, LONGEST_HASHED)


def safe_object(name: str) -> str:
    """As 7.0 and later name objects of a user, which is stricter than a label."""
    is_valid = len(name) <= LONGEST_OBJECT and _OBJECT.fullmatch(name)
    return name if is_valid and "--" not in name else _hashed(name, LONGEST_OBJECT)


def _hashed(name: str, longest: int) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS_OF_HASH]
    return f"{_letters(name, longest - len(_BETWEEN) - len(digest))}{_BETWEEN}{digest}"


def _letters(name: str, longest: int) -> str:
    """What is harmless of the name: begins with a letter, and is never empty."""
    found = _HARMFUL.sub("-", name.lower()).lstrip("-")[:longest].rstrip("-")
    if found and not found[0].isalpha():
        found = f"x-{found[: longest - 2]}"
    return found or "x"
