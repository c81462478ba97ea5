"""Authentication by bearer token, and roles."""

import pytest
from msgspec import structs

from booking.principals import Principal
from booking.server.ttl_cache import REMEMBERED
from booking.server.web.authentication import Authenticator
from booking.server.web.problems import ProblemError
from booking.server.web.roles import Roles
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.fake.clock import FakeClock
from cluster.kube.errors import ApiError, Request, Unreachable
from cluster.kube.token_review import Subject
from tests.booking.server.web.served import BOOKINGS, FakeAccess, FakeTokens, Served, problem
from tests.fakes.objects import A100

RESEARCH = Rule(source="kubernetes", match=r"system:serviceaccount:research:(.+)", user=r"\1")
DOWN = Unreachable(Request("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), "connection refused")


class Door:
    """An authenticator and the fakes that it calls."""

    def __init__(self, *rules: Rule) -> None:
        self.clock = FakeClock()
        self.tokens = FakeTokens()
        self.access = FakeAccess()
        self.authenticator = Authenticator(
            self.tokens,
            rules or DEFAULT_RULES,
            self.clock,
            Roles(self.access, self.clock),
            audience="gpu-booking",
        )

    def user(self, token: str) -> str:
        return self.authenticator.principal(f"Bearer {token}").user


class Readers:
    """``Access``: staff list the Events of the namespace research."""

    problem: ApiError | None = None

    def may(self, who: Subject, verb: str, *, group: str, resource: str, namespace: str = "") -> bool:
        if self.problem:
            raise self.problem
        asked = (verb, group, resource, namespace)
        return "staff" in who.groups and asked == ("list", "", "events", "research")


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_request_without_a_token_is_refused_with_how_to_get_one(served: Served) -> None:
    answer = served.client.get(BOOKINGS)

    refusal = problem(answer, 401)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="gpu-booking"'
    assert "kubectl create token NAME -n NAMESPACE --audience gpu-booking" in refusal["detail"]


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YWxpY2U6c2VjcmV0", "Bearer a b", "Bearer ä", "Bearer " + "a" * 20_000],
)
def test_a_malformed_header_is_refused_without_asking_the_api_server(served: Served, header: str) -> None:
    answer = served.client.get(BOOKINGS, headers={"Authorization": header})

    problem(answer, 401)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="gpu-booking", error="invalid_token"'
    assert served.tokens.calls.total() == 0


def test_an_invalid_token_is_refused(served: Served) -> None:
    answer = served.ask("GET", BOOKINGS, user="carol")

    refusal = problem(answer, 401)
    assert answer.headers["WWW-Authenticate"].endswith('error="invalid_token"')
    assert "carol-token" not in refusal["detail"]


def test_the_scheme_may_be_written_in_any_case(served: Served) -> None:
    assert served.client.get(BOOKINGS, headers={"Authorization": "bearer alice-token"}).status_code == 200


def test_a_name_that_no_rule_maps_is_quoted_in_the_refusal(served: Served) -> None:
    served.tokens.names["robot-token"] = "system:serviceaccount:research:robot"
    refusal = problem(served.ask("GET", BOOKINGS, user="robot"), 403)

    assert "system:serviceaccount:research:robot" in refusal["detail"]
    assert "identity rule" in refusal["detail"]


def test_a_service_account_is_a_user_where_a_rule_maps_it() -> None:
    door = Door(RESEARCH)
    door.tokens.names["t"] = "system:serviceaccount:research:alice"

    assert door.user("t") == "alice"


@pytest.mark.parametrize("raw", ["a" * 254, "a\nb", "a\x00"])
def test_a_name_that_cannot_be_written_into_the_cluster_is_refused(door: Door, raw: str) -> None:
    door.tokens.names["t"] = raw

    with pytest.raises(ProblemError, match="no identity rule") as caught:
        door.user("t")
    assert caught.value.kind.status == 403


def test_an_outage_of_the_api_server_is_answered_with_503(served: Served) -> None:
    served.tokens.problem = DOWN
    answer = served.ask("GET", BOOKINGS)

    problem(answer, 503)
    assert int(answer.headers["Retry-After"]) > 0
    served.tokens.problem = None
    assert served.ask("GET", BOOKINGS).status_code == 200


class TestMemory:
    def test_an_answer_is_remembered_for_ten_seconds(self, door: Door) -> None:
        for _ in range(3):
            assert door.user("alice-token") == "alice"
        door.clock.advance(9.9)
        door.user("alice-token")
        assert door.tokens.calls == {"alice-token": 1}

        door.clock.advance(0.1)
        del door.tokens.names["alice-token"]
        with pytest.raises(ProblemError):
            door.user("alice-token")

    def test_a_refusal_is_remembered_too(self, door: Door) -> None:
        for _ in range(3):
            with pytest.raises(ProblemError):
                door.user("guess")

        assert door.tokens.calls == {"guess": 1}

    def test_a_failure_is_not_remembered(self, door: Door) -> None:
        door.tokens.problem = DOWN
        with pytest.raises(ProblemError):
            door.user("alice-token")
        door.tokens.problem = None

        assert door.user("alice-token") == "alice"

    def test_the_memory_is_bounded(self, door: Door) -> None:
        door.user("alice-token")
        for number in range(REMEMBERED):
            door.tokens.names[f"t{number}"] = "bob"
            door.user(f"t{number}")
        door.user("alice-token")

        assert door.tokens.calls["alice-token"] == 2
        assert len(door.authenticator._known) == REMEMBERED

    def test_no_token_is_kept(self, door: Door) -> None:
        door.user("alice-token")

        assert "alice-token" not in repr(vars(door.authenticator._known))


class TestRoles:
    def test_groups_are_those_that_the_api_server_reports(self, door: Door) -> None:
        door.tokens.groups = frozenset({"gpu-staff"})

        assert door.authenticator.principal("Bearer alice-token").groups == {"gpu-staff"}

    @pytest.mark.parametrize("by", ["alice", "gpu-staff"], ids=["name", "group"])
    def test_a_user_whom_the_api_server_lets_administer_bookings_is_an_administrator(
        self, door: Door, by: str
    ) -> None:
        door.tokens.groups = frozenset({"gpu-staff"})
        door.access.administrators = {by}

        assert door.authenticator.principal("Bearer alice-token").is_administrator

    def test_a_user_without_that_permission_is_not_an_administrator(self, door: Door) -> None:
        assert not door.authenticator.principal("Bearer alice-token").is_administrator

    def test_the_role_is_remembered_for_ten_seconds(self, door: Door) -> None:
        door.access.administrators = {"alice"}
        for _ in range(3):
            assert door.authenticator.principal("Bearer alice-token").is_administrator
        assert door.access.calls.total() == 1

        door.access.administrators = set()
        door.clock.advance(10)
        assert not door.authenticator.principal("Bearer alice-token").is_administrator

    def test_the_role_is_checked_again_for_other_groups(self, door: Door) -> None:
        door.user("alice-token")
        door.tokens.groups = frozenset({"gpu-staff"})
        door.access.administrators = {"gpu-staff"}
        door.tokens.names["second"] = "alice"

        assert door.authenticator.principal("Bearer second").is_administrator

    def test_a_failed_check_of_the_role_is_answered_with_503_and_retried(self, served: Served) -> None:
        served.access.problem = DOWN
        answer = served.ask("GET", BOOKINGS)

        assert "what you may do" in problem(answer, 503)["detail"]
        assert int(answer.headers["Retry-After"]) > 0
        served.access.problem = None
        assert served.ask("GET", BOOKINGS).status_code == 200

    def test_events_are_for_those_whom_the_api_server_lets_list_them_in_that_namespace(self) -> None:
        readers = Readers()
        roles = Roles(readers, FakeClock())
        alice = Principal(user="alice", name="alice", account="oidc:alice", groups=frozenset({"staff"}))
        assert roles.may_read_events(alice, "research")
        assert not roles.may_read_events(alice, "vision")
        assert not roles.may_read_events(structs.replace(alice, groups=frozenset()), "research")
        assert not roles.may_read_events(structs.replace(alice, account=""), "research")
        readers.problem = DOWN
        assert not roles.may_read_events(alice, "biology")

    def test_whether_somebody_may_book_for_others_is_asked_only_if_they_want_to(self, served: Served) -> None:
        served.access.problem = DOWN
        served.booked()
        body = {"model": A100, "duration": "P2D", "user": "bob"}
        problem(served.ask("POST", BOOKINGS, json=body), 503)
