import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.policy import Policy
from booking.policy.reading import LONGEST, read_policy
from booking.policy.resolution import Group, Scope
from booking.policy.yaml_nodes import PolicyError
from cluster import names
from docs.tables.markdown import ROOT


def refused(text: str) -> list[str]:
    with pytest.raises(PolicyError) as refusal:
        read_policy(text)
    assert str(refusal.value) == "\n".join(map(str, refusal.value.mistakes))
    return [str(mistake) for mistake in refusal.value.mistakes]


# --- accepted files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "defaults:\n", "pools: {}\ngroups:\nusers: ~\n"])
def test_an_empty_policy_is_the_manual(text: str) -> None:
    assert read_policy(text) == Policy()


def test_every_scope_is_read() -> None:
    policy = read_policy("""
zone: Europe/Stockholm
visibility: names
defaults: {cooldown: 7d, horizon: P90D, max_gpus_per_booking: 2, may_extend: false}
pools:
  NVIDIA A100-SXM4-80GB: {horizon: none, scope: model}
groups:
  staff:
    members: [alice, bob]
    longest: P28D
    pools:
      NVIDIA-RTX-A6000: {buffer: 0}
  students: {shortest: 2h}
users:
  alice: {max_planned: 3}
  "0123": {}
""")
    assert policy == Policy(
        zone="Europe/Stockholm",
        visibility="names",
        defaults={
            "cooldown": Duration(7),
            "horizon": Duration(90),
            "max_gpus_per_booking": 2,
            "may_extend": False,
        },
        pools={"NVIDIA-A100-SXM4-80GB": {"horizon": None, "scope": "model"}},
        groups=(
            Group(
                name="staff",
                members=frozenset({"alice", "bob"}),
                scope=Scope(values={"longest": Duration(28)}, pools={"NVIDIA-RTX-A6000": {"buffer": 0}}),
            ),
            Group(name="students", scope=Scope(values={"shortest": Duration(0, 7200)})),
        ),
        users={"alice": Scope(values={"max_planned": 3}), "0123": Scope()},
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2", ", not 2: write version: 1, or leave it out"),
        ("-1", ", not -1: write"),
        ('"1"', ", not the text '1': write"),
        ("1.0", ", not the text '1.0': write"),
        ("true", ", not true: write"),
        ("v1", ", not the text 'v1': write"),
        ("", "read in version 1: write version: 1"),
        ("[1]", "read in version 1: write version: 1"),
    ],
)
def test_another_version_is_refused_with_what_to_do_and_nothing_else_is_judged(
    written: str, expected: str
) -> None:
    (message,) = refused(f"zone: Europe/Nowhere\nversion: {written}\nquotas: {{}}")
    assert message.startswith("Line 2, version: ")
    assert expected in message
    assert "a file of a later version needs the release" in message


def test_the_example_is_a_policy() -> None:
    policy = read_policy((ROOT / "docs" / "examples" / "policy.yaml").read_text())
    assert policy.zone == "Europe/Stockholm"
    assert policy.groups[0].members == {"alice"}
    assert policy.users["bob"].values == {"horizon": None}


def test_a_pool_that_an_autoscaler_fills_is_declared_by_a_node_profile() -> None:
    text = "nodes: {a100: {model: NVIDIA A100-SXM4-80GB, gpus: 8, nodes: 2, labels: {pool: a100, zone: 1}}}"
    (profile,) = read_policy(text).nodes
    assert (profile.name, profile.model) == ("a100", "NVIDIA-A100-SXM4-80GB")
    assert profile.written() == {
        "model": profile.model,
        "gpus": 8,
        "nodes": 2,
        "labels": {"pool": "a100", "zone": "1"},
    }
    assert read_policy(text).version != Policy().version


# --- refused files ---------------------------------------------------------------------------------------


def test_every_mistake_is_reported_with_its_line_and_key() -> None:
    assert refused("""zone: Europe/Stokholm
visibility: everything
default: {}
defaults:
  cooldwn: 1d
  shortest: 14
  may_extend: yes
  scope: project
pools:
  a: {buffer: -1.5}
groups:
  staff: {members: alice}
users: [bob]
""") == [
        (
            "Line 1, zone: The zone 'Europe/Stokholm' is not known: "
            "write one of the IANA database, e.g. Europe/Stockholm."
        ),
        "Line 2, visibility: It is one of load, names, not 'everything'.",
        (
            "Line 3, default: A policy has version, zone, visibility, defaults, pools, groups, users, nodes, "
            "fair_shares, and nothing of this name."
        ),
        "Line 5, defaults.cooldwn: There is no limit 'cooldwn' (is cooldown meant?).",
        "Line 6, defaults.shortest: shortest is a length of time, such as P14D, PT36H, 14d or 36h, not 14.",
        "Line 7, defaults.may_extend: may_extend is true or false, not 'yes'.",
        "Line 8, defaults.scope: scope is one of user, model, not 'project'.",
        "Line 10, pools.a.buffer: buffer is a whole number, not '-1.5'.",
        "Line 12, groups.staff.members: This must be a list of user ids, like `[alice, bob]`.",
        "Line 13, users: This must be keys and values, like `cooldown: P14D`.",
    ]


def test_a_node_profile_that_says_too_little_or_too_much_is_refused() -> None:
    assert refused("""nodes:
  a: {model: x, gpus: 8}
  b: {model: x, gpus: 0, nodes: many, labels: {}, size: 1}
""") == [
        "Line 2, nodes.a: A node profile has model, gpus, nodes, labels: nodes, labels is missing.",
        "Line 3, nodes.b.gpus: This must be a whole number from 1 to 64.",
        "Line 3, nodes.b.labels: Name at least one label that all nodes of the pool have, and no others.",
        "Line 3, nodes.b.nodes: This must be a whole number from 1 to 1000.",
        "Line 3, nodes.b.size: A node profile has model, gpus, nodes, labels, and nothing of this name.",
    ]


def test_a_duplicate_key_is_refused() -> None:
    assert refused("defaults: {buffer: 1}\ndefaults: {buffer: 2}\n") == [
        "Line 2, defaults: This key is here twice."
    ]
    assert refused("pools:\n  A B: {}\n  A-B: {}\n") == [
        "Line 3, pools.A-B: The model A-B is here twice, in two spellings."
    ]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("warn_before", names.setting("warn_before")),
        ("end_action", names.setting("end_action_without_controller")),
        ("end_grace", "end_grace is each pod's own (terminationGracePeriodSeconds), and not of the policy."),
        ("max_duration", "is longest meant?"),
        ("min_duration", "is shortest meant?"),
        ("zone", "There is no limit 'zone'"),
    ],
)
def test_a_limit_under_another_name_is_refused_with_the_right_one(limit: str, expected: str) -> None:
    (message,) = refused(f"defaults: {{{limit}: 1}}")
    assert expected in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "Line 1: This is not YAML"),
        ("defaults:\n\tcooldown: 1d", "Line 2: This is not YAML"),
        ("- 1", "This must be keys and values"),
        ("just text", "This must be keys and values"),
        ("a: &x 1\nb: *x", "Line 1: A policy has no anchors"),
        ("defaults: !!python/object/apply:os.system [ls]", "Line 1: A policy has no tags"),
        ("--- {}\n--- {}", "This is not YAML"),
        ("\0", "This is not YAML"),
        ("[" * 5000, "nested too deeply"),
        ("defaults: {buffer: [1]}", "This must be one value"),
        ("defaults: {[1]: 2}", "A key is a name"),
        ("users: {'': {}}", "A key is a name"),
        ("groups: {g: {members: [[a]]}}", "A member is a user id"),
        ("groups: {g: {members: [null]}}", "A member is a user id"),
        ("groups: {g: {membres: [a]}}", "is members meant?"),
        ("groups: {g: {pool: {a: {}}}}", "is pools meant?"),
        ("users: {~: {}}", "A key is a name"),
        ('zone: "\\UFFFFFFFF"', "This is not YAML"),
        ('zone: "\\U00110000"', "This is not YAML"),
        ("zone: [a]", "This must be one value"),
        ("#" * (LONGEST + 1), "at most"),
        ("defaults: {buffer: 99999999999999999999}", "buffer"),
    ],
)
def test_a_text_that_is_not_a_policy_is_refused_with_a_message(text: str, expected: str) -> None:
    found = refused(text)
    assert any(expected in message for message in found), found
    assert all(len(message) < 400 and message.endswith(".") for message in found)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_every_text_is_read_as_a_policy_or_refused(text: str) -> None:
    message = ""
    try:
        read_policy(text)
    except PolicyError as error:
        message = str(error)
    assert message == "" or message.startswith("Line ")
