"""A process as the kernel tells of it, whatever it is called."""

import os
import subprocess
import sys

from cluster.fake.clock import eventually
from devcluster.procstat import BORN, PARENT, fields_of, lives

NAMED = (
    "open('/proc/self/comm', 'w').write('a) b (c'); import sys; print('named', flush=True); sys.stdin.read()"
)


def test_a_process_is_told_of_until_somebody_has_waited_for_it() -> None:
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
