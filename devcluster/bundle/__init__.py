"""What a machine with a GPU needs to play tests/gpu: packed into a few files, for one without a network.

``python -m devcluster.bundle`` writes them (``make gpu-bundle``); there, ``./run`` prints a report. The
machine needs Linux, root, the NVIDIA driver and the Python whose version was named here.
"""
