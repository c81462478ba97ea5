"""GPUs by claims: a driver of Dynamic Resource Allocation (DRA), in place of the device plugin.

``slices``, ``prepare`` and ``configuration`` decide, and know no API; ``slice_publisher`` writes what the
scheduler allocates, ``servicer`` answers the kubelet, ``registration`` serves both.
"""
