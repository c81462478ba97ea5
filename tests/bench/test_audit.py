"""Requests are counted once, watches not at all."""

from pathlib import Path

import msgspec

from tests.bench.audit import AuditLog, service_account


def entry(verb: str, stage: str = "ResponseComplete") -> str:
    return f'{{"kind":"Event","verb":"{verb}","stage":"{stage}","user":{{"username":"x"}}}}\n'


def test_calls_are_counted_since_the_previous_query(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, service_account("a"))
    text = entry("list") + entry("watch") + entry("watch", "ResponseStarted") + entry("create")
    (tmp_path / "audit.log").write_text(text + entry("create")[:10])
    assert log.calls() == 2

    (tmp_path / "audit.log").write_text(text + entry("create") + entry("get"))
    assert log.calls() == 2
    assert log.calls() == 0


def test_the_policy_logs_the_named_account_and_no_other(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, service_account("a"))
    policy = msgspec.json.decode((tmp_path / "policy.json").read_bytes())

    assert policy["rules"] == [
        {"level": "Metadata", "users": ["system:serviceaccount:gpu-booking:a"]},
        {"level": "None"},
    ]
    assert log.arguments[0] == f"--audit-policy-file={tmp_path / 'policy.json'}"
