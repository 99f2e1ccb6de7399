"""What many votes come to. Pure: deny > ask > respond > allow > none, whatever the order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast

import attrs
from pluggent_hookspecs import Value
from pluggent_hookspecs.decisions import ANSWERS, Allow, Ask, Decision, Deny, Respond
from pluggent_hookspecs.observations import Vote
from pluggent_plugin_loader.names import APP
from pluggent_transcript.standing import DOUBT

from pluggent_host.common.names import HOST
from pluggent_host.hooks.caller import Answer
from pluggent_host.settings import Grants


@attrs.frozen(repr=False)
class Verdict(Value):
    """The outcome of one decide hook. ``deny``, ``asks`` and ``respond`` go with ``outcome``."""

    outcome: Literal["deny", "ask", "respond", "allow"]
    by: str
    reason: str
    votes: tuple[Vote, ...]
    deny: Deny | None = None
    asks: tuple[tuple[str, Ask], ...] = ()
    respond: Respond | None = None


def ballot(hook: str, plugin: str, answer: Answer, *, may_respond: bool) -> tuple[Decision | None, Vote]:
    """Return what one plugin's answer counts as. Everything that is not a legal answer denies."""
    decision: object = answer.value
    if decision is None and not answer.problem:
        return None, Vote(plugin, "none")
    elapsed_us = round(answer.elapsed_s * 1e6, 1)
    if answer.problem:
        decision = _fault(plugin, hook, answer.problem)
        return decision, Vote(plugin, "deny", answer.problem, elapsed_us)
    # The exact type, so that nothing of the plugin's runs in the comparison.
    kind = type(decision)
    if kind not in ANSWERS[hook].may:
        fault = _fault(plugin, hook, f"answered {kind.__name__}, which {hook} does not allow")
    elif kind is Respond and not may_respond:
        fault = _fault(plugin, hook, "answered Respond without the operator's grant [grants] may_respond")
    elif odd := [type(text).__name__ for text in _texts(cast("Decision", decision)) if not isinstance(text, str)]:
        fault = _fault(plugin, hook, f"answered {kind.__name__} with words that are {odd[0]}, not text")
    else:
        legal = cast("Decision", decision)
        return legal, Vote(plugin, _name(legal), _reason(legal), elapsed_us)
    return fault, Vote(plugin, "deny", fault.tell_user, elapsed_us)


def combine(
    ballots: Iterable[tuple[Decision | None, Vote]],
    host_vote: Decision | None,
    grants: Grants,
    doubt: Ask | None = None,
) -> Verdict:
    """Return the verdict of all *ballots*, the host's default by effect, and its *doubt*.

    An Allow that the operator listed lifts the default, never a doubt.
    """
    ballots = tuple(ballots)
    if doubt is None and _unopposed(ballots) and (host_vote is None or type(host_vote) is Allow):
        return _allowed_by_host(ballots, host_vote)
    said = [(vote.plugin, decision, vote) for decision, vote in ballots]
    if host_vote is not None:
        said.append((HOST, host_vote, Vote(HOST, _name(host_vote), _reason(host_vote))))
    if doubt is not None:
        said.append((DOUBT, doubt, Vote(DOUBT, "ask", doubt.tell_user)))
    votes = tuple(vote for _, _, vote in said)
    denies = [(plugin, decision) for plugin, decision, _ in said if isinstance(decision, Deny)]
    if denies:
        by, deny = denies[0]
        deny = attrs.evolve(deny, ends_turn=any(each.ends_turn for _, each in denies))
        return Verdict("deny", by, deny.tell_user, votes, deny=deny)
    lifted = any(
        isinstance(decision, Allow) and (plugin in grants.may_allow or plugin.startswith(APP))
        for plugin, decision, _ in said
    )
    own = len(said) - (host_vote is not None) - (doubt is not None)
    asks = tuple(
        (plugin, decision)
        for place, (plugin, decision, _) in enumerate(said)
        if isinstance(decision, Ask) and not (lifted and place >= own and decision is host_vote)
    )
    responds = [(plugin, decision) for plugin, decision, _ in said if isinstance(decision, Respond)]
    if any(not _same(other.value, responds[0][1].value) for _, other in responds[1:]):
        names = " and ".join(plugin for plugin, _ in responds)
        deny = Deny(f"{names} gave different answers to one request, so neither counts")
        return Verdict("deny", names, deny.tell_user, votes, deny=deny)
    respond = responds[0][1] if responds else None
    if asks:
        reason = "; ".join(ask.tell_user for _, ask in asks)
        return Verdict("ask", ", ".join(plugin for plugin, _ in asks), reason, votes, asks=asks, respond=respond)
    if respond is not None:
        return Verdict("respond", responds[0][0], respond.note, votes, respond=respond)
    allowed = [(plugin, decision) for plugin, decision, _ in said if isinstance(decision, Allow)]
    by, reason = (allowed[0][0], allowed[0][1].note) if allowed else (HOST, "")
    return Verdict("allow", by, reason, votes)


def _unopposed(ballots: tuple[tuple[Decision | None, Vote], ...]) -> bool:
    for decision, _ in ballots:  # noqa: SIM110 (in every call's way: a generator would cost more than the rest)
        if decision is not None:
            return False
    return True


def _allowed_by_host(ballots: tuple[tuple[Decision | None, Vote], ...], host_vote: Allow | None) -> Verdict:
    """Return the verdict where no plugin has an opinion: by far the most common one."""
    votes = tuple([vote for _, vote in ballots])
    if host_vote is None:
        return Verdict("allow", HOST, "", votes)
    return Verdict("allow", HOST, host_vote.note, (*votes, Vote(HOST, "allow", host_vote.note)))


def _fault(plugin: str, hook: str, problem: str) -> Deny:
    return Deny(
        "a policy failed, so this was not done",
        tell_user=f"policy '{plugin}' failed in {hook}: it {problem}; nothing was done",
    )


def _same(one: object, other: object) -> bool:
    try:
        # 1 and True are equal, and so are the lists they stand in; what is shown of them is not.
        return type(one) is type(other) and bool(one == other) and repr(one) == repr(other)
    except Exception:  # noqa: BLE001 (a plugin's own __eq__; what cannot be compared is not the same)
        return False


def _texts(decision: Decision) -> tuple[object, ...]:
    match decision:
        case Allow(note) | Respond(note=note):
            return (note,)
        case Deny() | Ask():
            return decision.tell_model, decision.tell_user


def _name(decision: Decision) -> str:
    return type(decision).__name__.lower()


def _reason(decision: Decision) -> str:
    match decision:
        case Allow(note) | Respond(_, note=note):
            return note
        case Deny():
            return decision.tell_user
        case Ask(tell_user):
            return tell_user
