"""``kubectl gpu whoami``, as people and programs read it."""

import json

from tests.booking.cli.conftest import Terminal


def test_a_user_sees_by_which_names_each_source_knows_them(terminal: Terminal) -> None:
    rows = [line.split() for line in terminal.says("whoami").splitlines()]
    assert rows[0][:3] == ["You", "are", "alice,"]
    assert {row[0]: row[1] for row in rows[2:]} == {
        "Kubernetes": "alice",
        "identity": "provider",
        "JupyterHub": "alice",
        "MAIA": "-",
    }
    assert "alice" in next(row for row in terminal.says("whoami", "-o", "wide").splitlines() if "Hub" in row)


def test_somebody_whom_the_hub_takes_for_another_learns_what_to_change(terminal: Terminal) -> None:
    terminal.served.tokens.names["MYoung-token"] = "MYoung"
    assert '"fold": true' in terminal.says("whoami", user="MYoung")


def test_programs_get_the_servers_answer(terminal: Terminal) -> None:
    assert json.loads(terminal.says("whoami", "-o", "json"))["known_as"][0]["source"] == "kubernetes"
    assert terminal.says("whoami", "-o", "name") == "user/alice\n"
