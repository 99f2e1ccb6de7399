"""Commands of plugins that are lent the host: opened with the user's settings, closed after them."""

import signal

import pytest
from cli_support import signalled, wait_for_line
from fake_distributions import install

COMMANDS = """
import asyncio, json, sys
from contextlib import asynccontextmanager
from pluggent_hookspecs import Command, ToolContext, hookimpl, tool

@tool(effects=())
def add(a: int, b: int) -> int:
    '''Add two numbers.'''
    return a + b

@tool(effects=("shell",))
def reboot() -> str:
    '''Reboot.'''
    return "rebooted"

@tool(effects=())
async def forever() -> str:
    '''Never end.'''
    print("begun", file=sys.stderr, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)

@tool(effects=())
async def inner(context: ToolContext) -> str:
    '''Ask for what needs a person.'''
    answer = await context.elicit("Which?", {"type": "object", "properties": {"name": {"type": "string"}}})
    called = await context.call_tool("reboot", {})
    return f"{type(answer).__name__} {called.for_model}"

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [add, reboot, forever, inner]

    @asynccontextmanager
    async def open(self, context):
        yield
        print("closed", flush=True)

def configure(parser):
    parser.add_argument("tool", nargs="?")
    parser.add_argument("arguments", nargs="?", default="{}")
    parser.add_argument("--origin", default="mcp")

async def run(options, operations):
    if options.tool == "nothing":
        return 0
    if options.tool == "fail":
        raise RuntimeError("on purpose")
    if options.tool is None:
        print(*(tool.capability for tool in await operations.tools("acme")))
        return 0
    done = await operations.call_tool(options.tool, json.loads(options.arguments), origin=options.origin)
    print(done.output.for_model, flush=True)
    return 3 if done.output.is_error else 0

class Commands:
    @hookimpl
    def provide_commands(self, event):
        return [Command("lend", "call a tool", configure=configure, run_with=run)]
"""


@pytest.fixture
def cli(cli):
    entries = {"tools/acme": "acme_lend:Tools", "commands/lend": "acme_lend:Commands"}
    install(cli.site, "acme", entries, modules={"acme_lend": COMMANDS})
    (cli.work / "mine.toml").write_text('[effects]\n"acme:tool/reboot" = []\n')
    return cli


def test_a_command_lists_tools_and_calls_one_which_is_recorded(cli):
    assert cli("lend") == (0, "acme:tool/add acme:tool/forever acme:tool/inner acme:tool/reboot\nclosed\n", "")
    assert cli("lend", "add", '{"a": 1, "b": 2}') == (0, "3\nclosed\n", "")
    (transcript,) = (cli.state / "sessions").glob("*.jsonl")
    assert "acme:tool/add" in transcript.read_text()


def test_a_command_that_needs_no_host_opens_none(cli):
    assert cli("lend", "nothing") == (0, "", "")


def test_what_needs_approval_is_denied_without_a_person_unless_the_settings_say_otherwise(cli):
    done = cli("lend", "reboot")

    assert (done.code, "no approver answered" in done.out, "[effects]" in done.out) == (3, True, True)
    assert cli("--config", "mine.toml", "lend", "reboot").out == "rebooted\nclosed\n"


def test_a_failure_of_the_command_is_the_plugins_and_what_was_opened_is_closed(cli):
    done = cli("lend", "fail")

    assert (done.code != 0, "failed in its command 'lend': RuntimeError: on purpose" in done.err) == (True, True)


def test_ctrl_c_cancels_the_call_and_closes_the_plugins(cli):
    process = cli.start("lend", "forever")
    wait_for_line(process, "begun")

    assert signalled(process, signal.SIGINT)[:2] == (130, "cancelled\nclosed\n")


def test_the_person_who_typed_the_command_is_asked_at_the_terminal(cli):
    ask = ["Allow this once?", "y\n"]
    call = cli.talk("lend", "reboot", "--origin", "cli", keys=ask)
    mine = cli.talk("lend", "inner", "--origin", "cli", keys=["it out): ", "this\n", "Send this?", "y\n", *ask])
    others = cli.talk("lend", "inner", keys=[])

    assert (call.code, "rebooted" in call.out) == (0, True)
    assert "Accepted rebooted" in mine.out
    assert "Cancelled Denied" in others.out


def test_calls_on_behalf_of_others_are_not_put_to_the_terminal_unless_the_operator_says_so(cli):
    done = cli.talk("lend", "reboot", keys=[])
    (cli.work / "console.toml").write_text('on_ask = "console"\n')
    asked = cli.talk("--config", "console.toml", "lend", "reboot", keys=["Allow this once?", "y\n"])

    assert (done.code, "Allow" in done.out, asked.code) == (3, False, 0)
