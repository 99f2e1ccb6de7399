"""The words with which a request is refused: the model reads them, and the policies on input decide about them."""

from typing import Any

import pytest
from fake_plugins import plugin
from pluggent_hookspecs import Approval, Ask, Deny, Message, Respond, tool
from pluggent_hookspecs.observations import DecisionMade
from pluggent_host import HostSettings
from pluggent_testing.fakes import call
from talking import hosting, results

REFUSED = "Denied: a person refused this"
WORDS = "no, the password is hunter2"


@tool(effects=("messaging",))
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def redacted(event: Any) -> Message:
    return Message.user(event.message.text.replace("hunter2", "[secret]"))


def about_words(answer: Any) -> Any:
    """Return a policy that gives *answer* to the words of a refusal, and none to what is said."""

    def decide(event: Any) -> Any:
        if "hunter2" not in event.message.text:
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    return plugin("Words", decide_input=decide)


CASES = [
    (plugin("None", observe=lambda _: None), f"{REFUSED}: {WORDS}"),
    (plugin("Redact", transform_input=redacted), f"{REFUSED}: no, the password is [secret]"),
    (about_words(Deny("no passwords")), REFUSED),
    (about_words(Ask("sure?")), REFUSED),
    (about_words(Respond("hello")), REFUSED),
    (about_words(ValueError("a bug")), REFUSED),
]
IDS = ["none", "redacted", "denied", "asked", "answered", "failing"]


@pytest.mark.parametrize(("policy", "read"), CASES, ids=IDS)
@pytest.mark.parametrize("when", ["at once", "later"])
async def test_the_model_reads_what_the_policies_on_input_leave(policy: Any, read: str, when: str):
    refusal = Approval(agreed=False, reason=WORDS)
    live = [plugin("Person", resolve_approval=lambda _: refusal)] if when == "at once" else []
    config = HostSettings(on_ask="pause")
    recorded: list[DecisionMade] = []
    async with (
        hosting(call("send", to="ann"), "ok", tools=[send], policies=[policy, *live], config=config) as host,
        await host.session() as session,
    ):
        with session.listening(recorded.append, DecisionMade):
            await session.say("go")
            if session.paused:
                await session.resume({session.pending[0].call_id: refusal})

        assert results(session.history) == [read]
    (refused,) = [each for each in recorded if each.verdict == "refused"]
    assert ("hunter2" in refused.reason) is ("hunter2" in read)
