"""What MAIA's tools do from inside the cluster: one HTTP request after the other, in a pod of our own image.

``python asking.py '[["POST", "http://...", {...}], ...]'`` prints as JSON each answer's status and body.
"""

import json
import sys
from typing import Any

import urllib3


def ask(method: str, url: str, body: Any) -> tuple[int, Any]:
    """One request."""
    answer = urllib3.request(method, url, json=body, timeout=60.0, retries=False)
    return answer.status, answer.json()


print(json.dumps([ask(*request) for request in json.loads(sys.argv[1])]))
