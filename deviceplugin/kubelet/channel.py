"""Channels to the kubelet's unix sockets."""

import socket
from pathlib import Path

import grpc

LARGEST_MESSAGE = 64 * 1024 * 1024
"""Bytes. All pods of a node in full do not fit into gRPC's default of 4 MiB."""


def channel(path: Path) -> grpc.Channel:
    """A channel to a server on a unix socket. The server need not be there yet.

    A Go server refuses the authority that gRPC derives from a socket's path, hence a plain one. The pauses
    are short because of a kubelet that has just been restarted.
    """
    options = [
        ("grpc.default_authority", "localhost"),
        ("grpc.max_receive_message_length", LARGEST_MESSAGE),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 200),
    ]
    return grpc.insecure_channel(f"unix:{path}", options=options)


def is_served(path: Path, *, patience: float = 1.0) -> bool:
    """Whether somebody accepts connections to a socket; ``patience``: seconds."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(patience)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
