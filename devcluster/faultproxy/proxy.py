"""A running proxy: HTTPS in, HTTPS out. It passes on bearer tokens, the API server's ``Date`` and answers."""

import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import urllib3

from cluster.process.clock import SystemClock
from devcluster.faultproxy.calls import Call
from devcluster.faultproxy.certificate import make_identity
from devcluster.faultproxy.rules import Rules
from devcluster.faultproxy.serving import Entrance, Way
from devcluster.faultproxy.streams import Streams

_CONNECTIONS: Final = 64
"""How many connections to the API server are kept for the next calls."""


class FaultProxy:
    """Listens until it is closed; as a context manager it closes itself."""

    def __init__(self, server: str, ca_file: Path, folder: Path, *, host: str = "127.0.0.1") -> None:
        """Listen on a free port.

        Args:
            server: URL of the API server.
            ca_file: certificate of its authority.
            folder: for our own key and certificate.
            host: the IP address to listen on, for which the certificate is made.

        Raises:
            ClusterError: no certificate could be made.
        """
        identity = make_identity(folder, host)
        self.ca_file: Final = identity.certificate
        """The certificate that a client must trust."""
        self.rules: Final = Rules()
        """The faults to inject; they can be replaced at any time."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        self._streams = Streams()
        self._upstream = urllib3.PoolManager(num_pools=1, maxsize=_CONNECTIONS, ca_certs=str(ca_file))
        way = Way(
            server=server.rstrip("/"),
            upstream=self._upstream,
            rules=self.rules,
            streams=self._streams,
            clock=SystemClock(),
        )
        self._entrance = Entrance(host, context, way)
        self.url: Final = f"https://{host}:{self._entrance.server_address[1]}"
        """Address at which clients reach the proxy."""
        self._thread = threading.Thread(
            target=self._entrance.serve_forever, args=(0.05,), name="fault-proxy", daemon=True
        )
        self._thread.start()

    def watches(self, wanted: Callable[[Call], bool] = lambda _call: True) -> int:
        """How many of the wanted watches run."""
        return len(self._streams.running(wanted))

    def cut_watches(self, wanted: Callable[[Call], bool] = lambda _call: True) -> int:
        """End the wanted running watches in the middle. Returns how many there were."""
        streams = self._streams.running(wanted)
        for stream in streams:
            stream.end()
        return len(streams)

    def close(self) -> None:
        """Stop listening, and end every connection and every watch."""
        self._entrance.shutdown()
        self._thread.join()
        self._streams.close()
        self._entrance.end_connections()
        self._entrance.server_close()
        self._upstream.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
