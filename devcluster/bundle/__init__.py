"""What a machine with a GPU and no network needs to run tests/gpu, packed into a few files.

``python -m devcluster.bundle`` writes them (``make gpu-bundle``); on that machine ``./run`` prints a report.
The machine needs Linux, root, the NVIDIA driver and the version of Python for which the files were packed.
"""
