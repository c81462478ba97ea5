"""How the GPUs of this node are used, joined with who holds them: for metrics, the Lease and Events."""

from deviceplugin.measure.joining import Snapshot, join, use_of
from deviceplugin.measure.measurer import Measurer, Options
from deviceplugin.measure.series import UseMetrics
from deviceplugin.measure.telling import SquatterTeller, sentence

__all__ = [
    "Measurer",
    "Options",
    "Snapshot",
    "SquatterTeller",
    "UseMetrics",
    "join",
    "sentence",
    "use_of",
]
