"""What the terminal shows of results of tools that a policy on outputs does not let a person see (rules 25, 40)."""

import json
from pathlib import Path

import pytest
from cli_support import Cli
from fake_distributions import install

SECRET = "sk-123"
TOOLS = f"""
from pluggent_hookspecs import ToolOutput, hookimpl, tool

@tool(effects=())
def tells() -> str:
    '''Tell the secret.'''
    return "the key is {SECRET}"

@tool(effects=())
def facts() -> dict[str, str]:
    '''Tell it in data.'''
    return {{"key": "{SECRET}"}}

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [tells, facts]
"""
DENIES = f"""
from pluggent_hookspecs import Deny, hookimpl

class Policy:
    @hookimpl
    def decide_output(self, event):
        return Deny("no keys here") if "{SECRET}" in event.message.text else None
"""
REWRITES = f"""
import attrs
from pluggent_hookspecs import hookimpl

class Policy:
    @hookimpl
    def transform_output(self, event):
        content = tuple(attrs.evolve(part, text=part.text.replace("{SECRET}", "***")) for part in event.message.content)
        return attrs.evolve(event.message, content=content)
"""
ASKS = DENIES.replace("Deny", "Ask")


def command(folder: Path, policy: str) -> Cli:
    made = Cli(folder)
    install(made.site, "acme-tells", {"tools/tells": "acme_tells:Plugin"}, modules={"acme_tells": TOOLS})
    install(made.site, "acme-policy", {"hooks/policy": "acme_policy:Policy"}, modules={"acme_policy": policy})
    made("trust", "--plugin", "acme-policy")
    return made


@pytest.mark.parametrize("policy", [DENIES, ASKS], ids=["denies", "asks"])
@pytest.mark.parametrize("words", [["run", "-v", "tells"], ["run", "--no-stream", "tells"], ["chat", "-v"]])
def test_the_terminal_says_that_a_tool_ran_and_nothing_of_a_result_that_is_denied(tmp_path, words, policy):
    done = command(tmp_path, policy)(*words, stdin="tells\n" if words[0] == "chat" else "")

    assert "← (it ran; a policy withholds the result)\n" in done.err
    assert "no keys here" in done.err
    assert SECRET not in done.out + done.err


def test_the_terminal_shows_what_a_policy_made_of_a_result(tmp_path):
    done = command(tmp_path, REWRITES)("run", "tells")

    assert "← the key is ***\n" in done.err
    assert SECRET not in done.out + done.err


@pytest.mark.parametrize(
    ("policy", "result"), [(DENIES, None), (REWRITES, '{"key":"***"}')], ids=["denies", "rewrites"]
)
def test_the_document_of_a_turn_holds_what_a_person_may_see(tmp_path, policy, result):
    done = command(tmp_path, policy)("run", "--json", "facts")

    (call,) = json.loads(done.out)["tool_calls"]
    assert (call["ran"], call["withheld"], call["result"]) == (True, result is None, result)
    assert call["data"] == (None if result is None else {"key": "***"})
    assert SECRET not in done.out + done.err


@pytest.mark.parametrize("policy", [DENIES, ASKS], ids=["denies", "asks"])
@pytest.mark.parametrize("name", ["tells", "facts"])
def test_a_call_by_hand_whose_result_is_denied_is_refused(tmp_path, name, policy):
    code, out, err = command(tmp_path, policy)("tools", "call", name)

    assert (code, out) == (3, "")
    assert "The result of this call was withheld: no keys here" in err
    assert SECRET not in err


def test_the_document_of_a_call_by_hand_whose_result_is_denied_says_so(tmp_path):
    done = command(tmp_path, DENIES)("tools", "call", "facts", "--json")

    document = json.loads(done.out)
    assert (document["withheld"], document["result"], document["data"]) == (True, None, None)
    assert (done.code, document["exit_code"], document["ran"]) == (3, 3, True)
    assert SECRET not in done.out + done.err


def test_a_call_by_hand_prints_what_a_policy_made_of_its_result(tmp_path):
    code, out, err = command(tmp_path, REWRITES)("tools", "call", "facts")

    assert (code, out) == (0, '{"key":"***"}\n')
    assert SECRET not in err
