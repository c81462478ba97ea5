"""What a shell offers after the tab key."""

import json
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import CompletionItem

from booking.cli import __main__ as program
from booking.cli import server_connection
from booking.cli.deadline import found_in_time
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.process.probes import serve
from tests.booking.cli.conftest import Terminal
from tests.booking.server.web.pages.site import Site
from tests.browser.sample_data import add_bookings, add_cluster
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server
from tests.fakes.objects import A100


def completions(terminal: Terminal, *words: str) -> list[str]:
    """Values that are completed."""
    found = program.completions([*words], terminal.served.clock)
    return [item.value for item in found]


@pytest.fixture
def environment(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment in which alice's shell knows its servers."""
    given = {server_connection.URL: terminal.url, server_connection.TOKEN: "alice-token"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


def test_commands_and_options_are_offered(terminal: Terminal) -> None:
    assert completions(terminal, "rel") == ["release"]
    assert "--gpus" in completions(terminal, "book", "--g")
    assert completions(terminal, "bookings", "-o", "y") == ["yaml"]


@pytest.mark.usefixtures("environment")
class TestBookings:
    """Ids of bookings."""

    @pytest.fixture
    def running(self, terminal: Terminal) -> str:
        """One of alice's."""
        return terminal.says("book", A100, "--for", "2d", "-o", "name").strip().removeprefix("booking/")

    @pytest.fixture
    def planned(self, terminal: Terminal) -> str:
        """One of bob's, which alice sees as an administrator."""
        terminal.served.signing_in.administrators.add("alice")
        words = ("book", A100, "--from", "fri 9", "--for", "2d", "-o", "name")
        return terminal.says(*words, user="bob").strip().removeprefix("booking/")

    @pytest.mark.parametrize(
        ("words", "kinds"),
        [
            (("extend",), {"running", "planned"}),
            (("resize",), {"running", "planned"}),
            (("bookings",), {"running", "planned"}),
            (("release",), {"running"}),
            (("cancel",), {"planned"}),
            (("move",), {"planned"}),
        ],
    )
    def test_the_ids_are_offered_for_which_the_command_makes_sense(
        self, terminal: Terminal, running: str, planned: str, words: tuple[str, ...], kinds: set[str]
    ) -> None:
        expected = {"running": running, "planned": planned}
        assert set(completions(terminal, *words, "b-")) == {expected[kind] for kind in kinds}
        assert completions(terminal, *words, "b-0") == []

    def test_past_bookings_are_offered_with_the_option_for_them(
        self, terminal: Terminal, running: str
    ) -> None:
        terminal.says("release", running)
        assert completions(terminal, "bookings", "") == []
        assert completions(terminal, "bookings", "--past", "") == [running]

    def test_each_id_has_its_description_next_to_it(self, terminal: Terminal, running: str) -> None:
        (item,) = program.completions(["release", ""], terminal.served.clock)
        assert (item.value, item.help) == (running, f"1 x {A100} of alice, active")


@pytest.mark.usefixtures("environment")
class TestAdministration:
    """What administrators type."""

    @pytest.fixture
    def alice(self, terminal: Terminal) -> Terminal:
        """Where she is one."""
        terminal.served.signing_in.administrators.add("alice")
        return terminal

    def made(self, alice: Terminal, *words: str) -> str:
        return alice.says("admin", *words, "--to", "fri", "--reason", "fans", "-o", "name").strip()

    def test_maintenance_and_exemptions_are_offered_by_their_ids(self, alice: Terminal) -> None:
        block, exemption = (
            self.made(alice, "block", "node-a"),
            self.made(alice, "exempt", "bob", "longest=P9D"),
        )
        booking = alice.says("book", A100, "--for", "2d", "-o", "name").strip().removeprefix("booking/")
        assert completions(alice, "admin", "unblock", "b-") == [block]
        assert completions(alice, "admin", "revoke", "") == [exemption]
        assert set(completions(alice, "admin", "audit", "--of", "")) == {block, exemption, booking}
        items = program.completions(["admin", "revoke", ""], alice.served.clock)
        assert [item.help for item in items] == ["bob: longest=P9D"]

    def test_nothing_is_offered_to_a_user_who_may_not_see_it(self, alice: Terminal) -> None:
        self.made(alice, "block", "node-a")
        alice.served.signing_in.administrators.discard("alice")
        assert completions(alice, "admin", "unblock", "") == []


class TestLive:
    """What there is in the cluster."""

    @pytest.fixture
    def site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
        made = Site(tmp_path)
        add_bookings(made)
        add_cluster(made)
        server = serve(made.app, "127.0.0.1", 0)
        monkeypatch.setenv(server_connection.URL, f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv(server_connection.TOKEN, "alice-token")
        yield made
        server.close()
        made.store.close()

    def test_nodes_that_are_not_named_yet_are_offered(self, site: Site) -> None:
        def values(*words: str) -> list[str]:
            return [item.value for item in program.completions([*words], site.clock)]

        assert values("status", "gpu-a") == ["gpu-a1", "gpu-a2"]
        assert values("status", "gpu-a1", "gpu-a") == ["gpu-a2"]
        for verb in ("block", "cordon", "uncordon", "clear"):
            assert values("admin", verb, "gpu-h") == ["gpu-h1"]

    def test_gpus_of_the_node_are_offered_by_number_and_by_uuid(self, site: Site) -> None:
        def values(*words: str) -> list[str]:
            return [item.value for item in program.completions(["admin", *words], site.clock)]

        for verb in ("cordon", "uncordon", "clear"):
            assert values(verb, "gpu-a1", "") == ["0", "1", "2", "3"]
        assert values("cordon", "gpu-a2", "GPU-gpu-a2-") == [f"GPU-gpu-a2-{n}" for n in range(4)]
        assert values("cordon", "gpu-zz", "") == []


def a_body(name: str, *, gpus: int = 1, node: str = "n0", **metadata: Any) -> dict[str, Any]:
    """A pod as the API server lists it."""
    limits = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
    return {
        "metadata": {"name": name, "namespace": "vision", **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def a_page(*items: object, following: str = "") -> Answer:
    """A page of a list."""
    return Answer(body=json.dumps({"metadata": {"continue": following}, "items": items}).encode())


@pytest.fixture
def api_server() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def kubeconfig(api_server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Alice's, whose context is in the namespace vision."""
    return a_kubeconfig(tmp_path, monkeypatch, api_server.url)


def a_kubeconfig(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, **user: object) -> Path:
    context = {"cluster": "lab", "user": "alice", "namespace": "vision"}
    document = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": context}],
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": "alice", "user": user or {"token": "alice-token"}}],
    }
    file = folder / "config"
    file.write_text(json.dumps(document))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


@pytest.mark.usefixtures("kubeconfig")
class TestPods:
    """Names of pods, from the API server."""

    def pods(self, api_server: ScriptedServer) -> None:
        api_server.answers(
            a_page(a_body("train-0"), a_body("train-1", node=""), a_body("web", gpus=0), following="more"),
            a_page(
                a_body("train-2", deletionTimestamp="2026-03-02T09:00:00Z"),
                a_body("back", gpus=0, annotations={names.USER: "alice"}),
            ),
        )

    def test_pods_that_request_gpus_are_offered_for_why(self, api_server: ScriptedServer) -> None:
        self.pods(api_server)
        assert values("why", "") == ["train-0", "train-1", "train-2", "back"]
        paths = [received.target for received in api_server.received]
        assert [path.partition("?")[0] for path in paths] == ["/api/v1/namespaces/vision/pods"] * 2
        assert "continue=more" in paths[1]

    def test_running_pods_are_offered_for_eviction(self, api_server: ScriptedServer) -> None:
        self.pods(api_server)
        assert values("admin", "evict", "train") == ["train-0"]

    @pytest.mark.parametrize("option", [("-n", "genomics"), ("--namespace=genomics",)])
    def test_pods_of_the_named_namespace_are_offered(
        self, api_server: ScriptedServer, option: tuple[str, ...]
    ) -> None:
        api_server.answers(a_page(a_body("fold")))
        assert values("why", *option, "f") == ["fold"]
        assert api_server.received[0].target.startswith("/api/v1/namespaces/genomics/pods?")

    def test_the_prefix_of_kubectl_before_a_pods_name_is_kept(self, api_server: ScriptedServer) -> None:
        api_server.answers(a_page(a_body("train-0"), a_body("fold")))
        assert values("why", "pod/tr") == ["pod/train-0"]

    def test_namespaces_are_offered(self, api_server: ScriptedServer) -> None:
        for words in (("why", "-n"), ("admin", "evict", "--namespace"), ("bookings", "--installed-in")):
            api_server.answers(a_page({"metadata": {"name": "vision"}}, {"metadata": {"name": "genomics"}}))
            assert values(*words, "vi") == ["vision"]

    @pytest.mark.parametrize("status", [401, 403, 429, 500])
    def test_nothing_is_offered_or_printed_when_the_api_server_refuses(
        self, api_server: ScriptedServer, capfd: pytest.CaptureFixture[str], status: int
    ) -> None:
        api_server.answers(*[Answer(status=status, headers={"Retry-After": "30"})] * 9)
        assert values("why", "") == []
        assert capfd.readouterr() == ("", "")

    def test_names_that_arrive_in_time_are_offered(self, api_server: ScriptedServer) -> None:
        api_server.answers(a_page(a_body("train-0"), following="more"), Answer(chunks=(None,)))
        assert values("why", "") == ["train-0"]


def values(*words: str) -> list[str]:
    return [item.value for item in program.completions([*words], FakeClock())]


EVERY_NAME = [
    ("why", ""),
    ("why", "-n", ""),
    ("admin", "evict", ""),
    ("admin", "unblock", ""),
    ("admin", "revoke", ""),
    ("admin", "audit", "--of", ""),
    ("admin", "cordon", ""),
    ("admin", "cordon", "n0", ""),
    ("extend", ""),
    ("release", ""),
    ("cancel", ""),
    ("bookings", ""),
    ("book", ""),
    ("policy", "show", "--model", ""),
    ("status", ""),
]


@pytest.mark.parametrize("words", EVERY_NAME, ids=" ".join)
def test_nothing_is_offered_or_printed_when_no_server_can_be_reached(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    a_kubeconfig(tmp_path, monkeypatch, "http://127.0.0.1:1")
    monkeypatch.setenv(server_connection.URL, "http://127.0.0.1:1")
    assert values(*words) == []
    monkeypatch.delenv(server_connection.URL)
    assert values(*words) == []
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert values(*words) == []
    assert capfd.readouterr() == ("", "")


def test_completion_does_not_wait_for_a_server_that_does_not_answer(
    api_server: ScriptedServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kubeconfig.exists()
    api_server.answers(Answer(chunks=(None,)), Answer(chunks=(None,)))
    assert values("why", "") == []
    monkeypatch.setenv(server_connection.URL, api_server.url)
    assert values("release", "") == []
    assert not api_server.closing.is_set()


def test_a_search_that_takes_too_long_is_abandoned() -> None:
    over = threading.Event()

    def search() -> Iterator[CompletionItem]:
        yield CompletionItem("first")
        over.wait()
        yield CompletionItem("second")

    assert [item.value for item in found_in_time(search)] == ["first"]
    over.set()


def test_errors_and_unprintable_values_are_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def search() -> Iterator[CompletionItem]:
        yield CompletionItem("first")
        yield CompletionItem("draws\x1b[2J")
        raise RuntimeError

    assert [item.value for item in found_in_time(search)] == ["first"]
    assert capfd.readouterr() == ("", "")


def test_an_unexpected_answer_offers_nothing(
    api_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(server_connection.URL, api_server.url)
    monkeypatch.setenv(server_connection.TOKEN, "alice-token")
    for body in (b"{}", b'{"bookings": [1]}', b'{"bookings": null}', b"<html>", b'{"bookings": [{}]}'):
        api_server.answers(Answer(body=body))
        assert values("release", "") == []


def test_a_credential_plugin_runs_silently_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "marker"
    script = f"echo sign in, please >&2; touch '{marker}'; exec sleep 600"
    program = {"command": "sh", "args": ["-c", script], "interactiveMode": "IfAvailable"}
    a_kubeconfig(tmp_path, monkeypatch, "http://127.0.0.1:1", exec=program)
    assert values("why", "") == []
    assert marker.exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["[", "contexts: 7", "contexts: [{name: 3}, 4, {}]", "\x00\xff"])
def test_an_invalid_kubeconfig_offers_no_contexts_and_no_errors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="latin-1")
    assert values("bookings", "--kubeconfig", str(file), "--context", "") == []
    assert values("bookings", "--kubeconfig", str(tmp_path), "--context", "") == []
    assert capfd.readouterr() == ("", "")


def completed(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The answer of the program that kubectl runs."""
    file = Path(sys.executable).with_name("kubectl_complete-gpu")
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", **environ}
    return subprocess.run(
        [file, *words], env=environ, capture_output=True, text=True, check=False, timeout=120
    )


def test_kubectl_gets_values_with_descriptions_and_the_directive_against_files(
    terminal: Terminal, environment: dict[str, str]
) -> None:
    booking = terminal.says("book", A100, "--for", "2d", "-o", "name").strip().removeprefix("booking/")
    done = completed("release", "b-", **environment)
    assert (done.stdout, done.stderr) == (f"{booking}\t1 x {A100} of alice, active\n:4\n", "")


def test_kubectl_gets_pods_of_the_namespace(api_server: ScriptedServer, kubeconfig: Path) -> None:
    api_server.answers(a_page(a_body("fold")))
    done = completed("why", "-n", "genomics", "", KUBECONFIG=str(kubeconfig))
    assert (done.stdout, done.stderr) == ("fold\n:4\n", "")


@pytest.mark.parametrize("words", [("policy", "test", ""), ("bookings", "--kubeconfig", "/e")])
def test_kubectl_completes_files_where_files_are_meant(words: tuple[str, ...]) -> None:
    done = completed(*words)
    assert (done.stdout, done.stderr) == (":0\n", "")


@pytest.mark.parametrize("words", [(), ("",), ("nope", ""), ("why", "--nope", ""), ("book", "--gpus", "")])
def test_kubectl_never_gets_an_error(words: tuple[str, ...]) -> None:
    done = completed(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(":4\n")


def test_kubectl_gets_nothing_while_the_api_server_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of the API server tries again, and its library logs that: not here."""
    file = a_kubeconfig(tmp_path, monkeypatch, "http://127.0.0.1:1")
    done = completed("why", "", KUBECONFIG=str(file))
    assert (done.stdout, done.stderr) == (":4\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(terminal: Terminal, shell: str) -> None:
    assert names.COMPLETION_VARIABLE in terminal.says("completion", shell)


def test_the_programs_that_kubectl_looks_for_are_installed() -> None:
    folder = Path(sys.executable).parent
    for name in ("gpu-booking", "kubectl-gpu", "kubectl_complete-gpu"):
        assert (folder / name).stat().st_mode & stat.S_IXUSR


@pytest.mark.usefixtures("environment")
def test_models_are_offered_by_a_part_of_their_name(terminal: Terminal) -> None:
    for words in (("earliest",), ("status", "--model"), ("policy", "show", "--model")):
        assert completions(terminal, *words, "nvidia a100") == [A100]
    for words in (("admin", "block", "node-a"), ("admin", "exempt", "alice")):
        assert completions(terminal, *words, "--model", "a100") == [A100]
    assert completions(terminal, "book", "a100") == [A100]
    assert completions(terminal, "bookings", "--model", "NVIDIA-A") == [A100]


def test_contexts_are_those_of_the_kubeconfig_that_was_named(terminal: Terminal, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: lab, context: {}}, {name: prod, context: {}}]")
    assert completions(terminal, "bookings", "--kubeconfig", str(config), "--context", "l") == ["lab"]


def test_bash_completes_with_its_script() -> None:
    script = (
        "source <(gpu-booking completion bash)",
        "COMP_WORDS=(gpu-booking rel) COMP_CWORD=1",
        "_gpu_booking_completion gpu-booking",
        'echo "${COMPREPLY[@]}"',
    )
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("release\n", "")
