"""A process as the kernel reports it, whatever its name."""

import os
import subprocess
import sys

from cluster.fake.clock import eventually
from devcluster.procstat import BORN, PARENT, fields_of, lives

NAMED = (
    "open('/proc/self/comm', 'w').write('a) b (c'); import sys; print('named', flush=True); sys.stdin.read()"
)


def test_a_process_is_reported_until_it_has_been_waited_for() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"named\n"
        fields = fields_of(process.pid)
        assert fields
        assert int(fields[PARENT]) == os.getpid()
        assert int(fields[BORN]) > 0
        assert lives(process.pid)
        process.kill()
        eventually(lambda: not lives(process.pid))
        assert fields_of(process.pid), "nobody has waited for it"
    assert fields_of(process.pid) is None
    assert not lives(process.pid)
