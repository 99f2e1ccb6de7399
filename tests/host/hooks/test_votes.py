"""The verdict of many votes (rule 1), the host's own (2), answers that differ (3) and the table of answers (5)."""

from each_of import each_of, shown
from hypothesis import given, strategies as st
from pluggent_hookspecs import ANSWERS, Allow, Ask, Decision, Deny, Respond, ToolOutput, Vote
from pluggent_host.common.names import HOST
from pluggent_host.hooks.caller import Answer
from pluggent_host.hooks.votes import Verdict, ballot, combine
from pluggent_host.settings import Grants

HOOK = "decide_tool_call"
NONE = Grants()
RANK = {"deny": 4, "ask": 3, "respond": 2, "allow": 1, "none": 0}
NAME = {Deny: "deny", Ask: "ask", Respond: "respond", Allow: "allow"}

texts = st.sampled_from(["a", "b"])
decisions = st.one_of(
    st.none(),
    st.builds(Allow, texts),
    st.builds(Ask, texts),
    st.builds(Deny, texts, ends_turn=st.booleans()),
    st.builds(Respond, st.just("the one answer")),
)
host_votes = st.sampled_from([None, Allow("by effect"), Ask("by effect")])


def tally(votes: dict[str, Decision | None], host_vote: Decision | None = None, grants: Grants = NONE) -> Verdict:
    ballots = [ballot(HOOK, plugin, Answer(vote), may_respond=True) for plugin, vote in votes.items()]
    return combine(ballots, host_vote, grants)


def name(decision: Decision | None) -> str:
    return "none" if decision is None else NAME[type(decision)]


def plugins(votes: list[Decision | None]) -> dict[str, Decision | None]:
    return {f"plugin-{number}": vote for number, vote in enumerate(votes)}


@given(st.lists(decisions, max_size=6), host_votes)
def test_the_highest_vote_is_the_verdict(votes: list[Decision | None], host_vote: Decision | None) -> None:
    highest = max([*votes, host_vote], key=lambda vote: RANK[name(vote)])

    verdict = tally(plugins(votes), host_vote)

    assert verdict.outcome == (name(highest) if highest is not None else "allow")


@given(st.lists(decisions, min_size=1, max_size=4), host_votes, st.randoms())
def test_the_order_of_plugins_never_matters(votes: list[Decision | None], host_vote: Decision | None, random) -> None:
    cast = plugins(votes)
    shuffled = list(cast.items())
    random.shuffle(shuffled)

    one, other = tally(cast, host_vote), tally(dict(shuffled), host_vote)

    assert one.outcome == other.outcome
    assert set(one.asks) == set(other.asks)
    assert one.respond == other.respond
    assert (one.deny is not None and one.deny.ends_turn) == (other.deny is not None and other.deny.ends_turn)
    assert sorted(vote.plugin for vote in one.votes) == sorted(vote.plugin for vote in other.votes)


@given(st.lists(decisions, max_size=6), host_votes)
def test_every_vote_is_kept_with_its_reason(votes: list[Decision | None], host_vote: Decision | None) -> None:
    verdict = tally(plugins(votes), host_vote)

    given_votes = [*votes, *([host_vote] if host_vote is not None else [])]
    assert [vote.verdict for vote in verdict.votes] == [name(vote) for vote in given_votes]
    for vote, decision in zip(verdict.votes, given_votes, strict=True):
        reason = {Allow: "note", Respond: "note"}.get(type(decision), "tell_user")
        assert vote.reason == ("" if decision is None else getattr(decision, reason))


def test_a_deny_is_attributed_to_a_plugin_that_denied_and_an_empty_vote_to_the_host() -> None:
    verdict = tally({"a": Allow(), "b": Deny("no", tell_user="no, dear user"), "c": Ask("?")}, Ask("by effect"))

    assert (verdict.outcome, verdict.by, verdict.reason) == ("deny", "b", "no, dear user")
    assert tally({}) == Verdict("allow", HOST, "", ())


@given(st.lists(decisions, max_size=5), st.sets(st.sampled_from([f"plugin-{n}" for n in range(5)])))
def test_only_a_listed_plugins_allow_lifts_the_hosts_own_ask_and_nothing_else(
    votes: list[Decision | None], listed: set[str]
) -> None:
    cast = plugins(votes)
    grants = Grants(may_allow=tuple(sorted(listed)))

    verdict = tally(cast, Ask("by effect"), grants)

    lifted = any(isinstance(vote, Allow) and plugin in listed for plugin, vote in cast.items())
    asked = {plugin for plugin, vote in cast.items() if isinstance(vote, Ask)} | ({HOST} if not lifted else set())
    if any(isinstance(vote, Deny) for vote in votes):
        assert verdict.outcome == "deny"
    elif asked:
        assert verdict.outcome == "ask"
        assert {plugin for plugin, _ in verdict.asks} == asked
    else:
        assert verdict.outcome in ("respond", "allow")


def test_an_allow_lifts_no_ask_of_another_plugin_nor_unlisted_one_of_the_host() -> None:
    """Rule 2: an ask of a plugin whose distribution is called ``host`` is not the host's own."""
    eager = Grants(may_allow=("eager",))

    assert tally({"eager": Allow()}, Ask("by effect")).outcome == "ask"
    assert tally({HOST: Ask("the plugin's own question"), "eager": Allow()}, None, eager).outcome == "ask"
    verdict = tally({"eager": Allow(), "careful": Ask("?")}, Ask("by effect"), eager)
    assert [plugin for plugin, _ in verdict.asks] == ["careful"]


@each_of(
    ("one", "other"),
    [
        ("x", "y"),
        (1, True),
        (0, False),
        (1, 1.0),
        ([1], [True]),
        ({"a": 1}, {"a": True}),
        (ToolOutput("x"), ToolOutput("y")),
    ],
)
def test_two_differing_answers_deny_and_name_both(one: object, other: object) -> None:
    votes = [("a", Respond(one)), ("b", Respond(other)), ("c", Ask("?"))]
    for order in (votes[:2], votes[1::-1], votes):
        verdict = tally(dict(order))

        assert verdict.outcome == "deny"
        assert "a" in verdict.by
        assert "b" in verdict.by


def test_one_answer_given_twice_or_behind_an_ask_is_kept() -> None:
    same = tally({"a": Respond(ToolOutput("x")), "b": Respond(ToolOutput("x"))})
    asked = tally({"a": Respond("x"), "c": Ask("?")})

    assert (same.outcome, same.respond) == ("respond", Respond(ToolOutput("x")))
    assert (asked.outcome, asked.respond) == ("ask", Respond("x"))


@each_of("hook", ANSWERS)
@each_of("decision", [Allow(), Deny("no"), Ask("?"), Respond("x")], ids=lambda made: type(made).__name__)
def test_an_answer_outside_the_table_denies(hook: str, decision: Decision) -> None:
    made, vote = ballot(hook, "acme", Answer(decision), may_respond=True)

    if type(decision) in ANSWERS[hook].may:
        assert made is decision
    else:
        assert isinstance(made, Deny)
        assert hook in made.tell_user
        assert "acme" in made.tell_user
    assert vote == Vote("acme", name(made), vote.reason, 0.0)


@each_of("hook", ANSWERS)
@each_of(
    "value",
    [True, False, 0, "allow", "deny", {}, [], Allow, Deny, object(), (Allow(),), NotImplemented, ...],
    ids=shown,
)
def test_what_is_not_a_decision_denies(hook: str, value: object) -> None:
    made, vote = ballot(hook, "acme", Answer(value), may_respond=True)

    assert isinstance(made, Deny)
    assert vote.verdict == "deny"
    assert type(value).__name__ in vote.reason


@each_of("hook", ANSWERS)
def test_no_opinion_is_a_vote_of_none(hook: str) -> None:
    assert ballot(hook, "acme", Answer(None), may_respond=False) == (None, Vote("acme", "none"))


@each_of("hook", ANSWERS)
@each_of("value", [None, Allow(), True])
def test_a_problem_denies_whatever_came_with_it(hook: str, value: object) -> None:
    made, vote = ballot(hook, "acme", Answer(value, "was too late", 0.5), may_respond=True)

    assert isinstance(made, Deny)
    assert vote == Vote("acme", "deny", "was too late", 500_000.0)


def test_the_person_reads_which_policy_failed_and_the_model_does_not() -> None:
    """Rule 6: two texts."""
    made, _ = ballot(HOOK, "acme-guard", Answer(None, "raised ValueError: /etc/secret"), may_respond=False)

    assert isinstance(made, Deny)
    assert "acme-guard" in made.tell_user
    assert "acme-guard" not in made.tell_model
    assert "secret" not in made.tell_model
