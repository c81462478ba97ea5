"""A training that survives an eviction: what docs/examples/job.yaml runs. It needs only the standard library.

It saves its state regularly, at a notice, and at SIGTERM, and continues from there when it starts again.
In place of real work it counts steps; ``work``, ``save`` and ``resume`` are what you replace.
"""

import json
import logging
import os
import signal
import ssl
import sys
import time
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from threading import Event

STATE = Path(os.environ.get("STATE_FILE", "/state/training.json"))
STEPS = int(os.environ.get("STEPS", "100000"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "1"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "100"))
NOTICE = Path("/podinfo/notice")
"""The notice's annotation, in a downward-API volume: empty while there is no notice."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
UNFINISHED = 75
"""Exit code if the next pod must do the rest. With 0 the Job would count this pod as completed."""

log = logging.getLogger("training")


def main() -> int:
    """Train until it is done or the pod must go; the exit code."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    step = resume()
    log.info("begins at step %d", step)
    while step < STEPS and not stop.is_set():
        work(stop)
        step += 1
        if step % SAVE_EVERY == 0:
            save(step)
            annotate("CHECKPOINT_AT")
        if has_notice():
            save(step)
            annotate("CHECKPOINT_DONE")
            wait(stop)
    save(step)
    log.info("leaves at step %d" if step < STEPS else "is done after %d steps", step)
    return UNFINISHED if step < STEPS else 0


def work(stop: Event) -> None:
    """One step of your training."""
    stop.wait(STEP_SECONDS)


def save(step: int) -> None:
    """Your checkpoint. A pod that is killed while it writes one must still find the previous one."""
    fresh = STATE.with_suffix(".new")
    fresh.write_text(json.dumps({"step": step}))
    fresh.replace(STATE)


def resume() -> int:
    """The step of the newest checkpoint, 0 if there is none."""
    return int(json.loads(STATE.read_text())["step"]) if STATE.exists() else 0


def has_notice() -> bool:
    """Whether somebody with a booking needs this pod's GPU."""
    return NOTICE.exists() and bool(NOTICE.read_text().strip())


def wait(stop: Event) -> None:
    """Begin nothing that would be lost, as everything is saved. If the notice is withdrawn, work goes on."""
    log.info("has saved its work, and waits: %s", NOTICE.read_text())
    while has_notice() and not stop.is_set():
        stop.wait(1)


def annotate(variable: str) -> None:
    """Report that the work is safe up to now, by an annotation on this very pod.

    It makes an eviction cheaper (``checkpoint-at``) or sooner (``checkpoint-done``), and must never be the
    reason why a training fails.
    """
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    patch = {"metadata": {"annotations": {os.environ[variable]: now}}}
    pod = f"/api/v1/namespaces/{(ACCOUNT / 'namespace').read_text()}/pods/{os.environ['HOSTNAME']}"
    headers = {
        "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
        "Content-Type": "application/merge-patch+json",
    }
    server = HTTPSConnection(
        os.environ["KUBERNETES_SERVICE_HOST"],
        int(os.environ["KUBERNETES_SERVICE_PORT"]),
        timeout=5,
        context=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")),
    )
    try:
        server.request("PATCH", pod, json.dumps(patch), headers)
        answer = server.getresponse()
        if answer.status != HTTPStatus.OK:
            log.warning("cannot say that its work is safe: %s", answer.read().decode())
    except OSError as error:
        log.warning("cannot say that its work is safe: %s", error)
    finally:
        server.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    sys.exit(main())
