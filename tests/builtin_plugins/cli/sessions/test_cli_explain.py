"""``pluggent explain``: who said what to each operation of a turn, and its outcome."""

from pathlib import Path

import pytest
from cli_support import EVIL, STEERING, Cli
from pluggent_hookspecs import DecisionMade, Message, Usage
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import Vote
from pluggent_transcript.entries import Decided, Said, Settled, Spending, TurnBegan, TurnOver
from saved import save, tool_turn, turn


@pytest.fixture
def folder(cli: Cli) -> Path:
    return cli.state / "sessions"


def test_a_turn_is_explained_operation_by_operation_and_can_be_chosen(cli, folder):
    save(folder, "trip", *turn("hello", "ho"), *tool_turn(id="t2"))
    code, out, err = cli("explain", "trip", "--verbose")

    assert (code, err) == (0, "")
    assert out.startswith("trip  t2  ")
    assert out.splitlines()[1:] == [
        "",
        'tool call  weather {"city":"Beijing","unit":"celsius"}  acme-weather:tool/weather',
        '  acme-policy changed unit: "s3cret" → "celsius"',
        "  acme-policy said none",
        "  = allow by host: declared pure",
        "  done: 17 °C",
        "",
        "ended  completed",
    ]
    assert "used  scripted/m: 3 tokens in, 4 out\n" in cli("explain", "trip", "t1").out
    code, _, err = cli("explain", "trip", "t9")
    assert (code, "session 'trip' has no turn 't9'" in err) == (2, True)


def test_the_json_has_everything_that_the_record_has(cli, folder):
    save(folder, "trip", *tool_turn())
    document = cli.document("explain", "trip")

    header = {"format": "pluggent-explanation", "version": 1, "turn": "t1", "why": "completed"}
    assert {key: document[key] for key in header} == header
    assert document["operations"] == [
        {
            "id": "t1.0.0", "operation": "tool_call", "capability": "acme-weather:tool/weather", "call_id": "c1",
            "name": "weather", "arguments": '{"city":"Beijing","unit":"celsius"}', "digest": "digest",
            "decisions": [
                {
                    "verdict": "allow", "by": "host", "reason": "declared pure", "elapsed_us": 0.0,
                    "votes": [{"plugin": "acme-policy", "verdict": "none", "reason": "", "elapsed_us": 0.0}],
                    "changes": [{"plugin": "acme-policy", "paths": ["unit"], "before": "s3cret", "after": "celsius"}],
                }
            ],
            "answers": [], "dispatched": False, "settled": True, "outcome": "", "result": "17 °C",
        }
    ]  # fmt: skip


def test_calls_that_share_an_id_are_told_apart(cli, folder):
    call = ToolCall("c1", "weather", "{}")
    entries = [TurnBegan("t1", 2.5, "cli")]
    for number in range(2):
        decision = DecisionMade(
            Scope("trip", "t1"), "tool_call", f"t1.{number}.0", f"d{number}", "allow", "host", call_id="c1",
            arguments_json=b"{}", capability="acme:tool/weather",
        )  # fmt: skip
        said = Said("t1", Message.assistant((), (call,)))
        entries += [said, Decided(decision), Settled("t1", "c1", Message.tool(call, f"result {number}"))]
    save(folder, "trip", *entries, TurnOver("t1", "completed"))

    operations = cli.document("explain", "trip")["operations"]
    assert [(one["id"], one["result"]) for one in operations] == [("t1.0.0", "result 0"), ("t1.1.0", "result 1")]


def test_a_call_that_no_policy_saw_is_explained_too(cli, folder):
    call = ToolCall("c1", "wether", "{}")
    settled = Settled("t1", "c1", Message.tool(call, "Error: there is no tool 'wether'", is_error=True), "unknown")
    save(folder, "trip", TurnBegan("t1", 2.5), Said("t1", Message.assistant((), (call,))), settled)

    out = cli("explain", "trip").out
    assert "tool call  wether\n  unknown: Error: there is no tool 'wether'\n" in out
    assert out.endswith("not over\n")


def test_nothing_in_a_record_can_steer_the_terminal(cli, folder):
    decision = DecisionMade(
        Scope("trip", "t1"), "tool_call" + EVIL, "t1.0.0", EVIL, "deny" + EVIL, EVIL, EVIL, EVIL, EVIL,
        EVIL.encode(), (Vote(EVIL, EVIL, EVIL),),
    )  # fmt: skip
    spending = Spending("t1", EVIL, Usage(), EVIL)
    save(folder, "trip", TurnBegan("t1", 2.5, EVIL), Decided(decision), spending, TurnOver("t1", EVIL, EVIL))

    for words in ((), ("--json",)):
        done = cli("explain", "trip", *words)
        assert (done.code, STEERING & set(done.out + done.err)) == (0, set())


def test_a_damaged_session_is_explained_as_far_as_it_can_be_read(cli, folder):
    with save(folder, "trip", *tool_turn()).open("ab") as file:
        file.write(b'{"t":"Said"}\n')
    code, out, err = cli("explain", "trip")

    assert (code, "ended  completed" in out, "is damaged" in err) == (1, True, True)


def test_an_empty_session_has_nothing_to_explain(cli, folder):
    save(folder, "trip")

    assert cli("explain", "trip") == (1, "", "error: session 'trip' has no turn yet\n")
    assert [cli("explain", *words).code for words in (["nowhere"], [], ["trip", "t1", "t2"])] == [2, 2, 2]
