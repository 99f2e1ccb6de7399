"""What the command shows of results of tools that a policy on outputs does not let a person see (rules 25, 40)."""

import pytest
from cli_support import Cli
from each_of import each_of
from fake_distributions import policy

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
DENIES = policy("decide_output", f'Deny("no keys here") if "{SECRET}" in event.message.text else None')
REWRITES = f"""
import attrs
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    def transform_output(self, event):
        content = tuple(attrs.evolve(part, text=part.text.replace("{SECRET}", "***")) for part in event.message.content)
        return attrs.evolve(event.message, content=content)
"""


@pytest.fixture
def cli(cli, request):
    cli.plugin("acme-tells", TOOLS)
    cli.plugin("acme-policy", request.param, "hooks", accepted=True)
    return cli


ASKS = DENIES.replace("Deny(", "Ask(")
denying = pytest.mark.parametrize("cli", [DENIES, ASKS], ids=["denies", "asks"], indirect=True)
rewriting = pytest.mark.parametrize("cli", [REWRITES], ids=["rewrites"], indirect=True)


@denying
def test_the_command_says_that_a_tool_ran_and_nothing_of_a_result_that_is_denied(cli: Cli):
    for words in ("run -v tells", "run --no-stream tells", "chat -v"):
        done = cli(*words.split(), stdin="tells\n" if words.startswith("chat") else "")

        assert "← (it ran; a policy withholds the result)\n" in done.err
        assert "no keys here" in done.err
        assert SECRET not in done.out + done.err
    for name in ("tells", "facts"):
        code, out, err = cli("tools", "call", name)

        assert (code, out, SECRET in err) == (3, "", False)
        assert "The result of this call was withheld: no keys here" in err


@rewriting
def test_the_command_shows_what_a_policy_made_of_a_result(cli: Cli):
    done = cli("run", "tells")

    assert ("← the key is ***\n" in done.err, SECRET in done.out + done.err) == (True, False)
    code, out, err = cli("tools", "call", "facts")
    assert (code, out, SECRET in err) == (0, '{"key":"***"}\n', False)


@each_of("words", ["run facts", "tools call facts"])
@pytest.mark.parametrize("cli", [DENIES, REWRITES], ids=["denies", "rewrites"], indirect=True)
def test_documents_hold_what_a_person_may_see(cli: Cli, request, words):
    withheld = "denies" in request.node.name
    document = cli.document(*words.split())

    (call,) = document.get("tool_calls", [document])
    assert (call["ran"], call["withheld"]) == (True, withheld)
    assert (call["result"], call["data"]) == ((None, None) if withheld else ('{"key":"***"}', {"key": "***"}))
    if words.startswith("tools"):
        assert document["exit_code"] == (3 if withheld else 0)
    assert SECRET not in str(document)
