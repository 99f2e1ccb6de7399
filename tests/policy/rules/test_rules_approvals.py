"""What an approval is worth: this request, as long as policies still agree (rule 11)."""

import pytest
from pluggent_hookspecs import Ask, Deny, tool
from pluggent_testing.fakes import call
from policy_rules import deciding, yes
from talking import results, talking


@pytest.fixture(autouse=True)
def long_thoughts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every answer for one that was given late."""
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)


@pytest.mark.parametrize(
    ("later", "ran"),
    [(None, ["x"]), (Ask("really?"), ["x"]), (Deny("closed meanwhile"), []), (Ask("something else?"), [])],
    ids=["no opinion", "the same question", "deny", "another question"],
)
async def test_after_a_long_thought_policies_are_asked_again(later: object, ran: list[str]) -> None:
    done: list[str] = []

    @tool(effects=())
    async def act(path: str) -> str:
        """Do it."""
        done.append(path)
        return "done"

    policy = deciding("decide_tool_call", Ask("really?"), later)
    async with talking(call("act", path="x"), tools=[act], plugins=[policy], approver=yes) as session:
        await session.say("go")

        assert done == ran
        assert len(results(session.history)) == 1
