"""The real ``pluggent mcp serve`` as a process, with tools of one plugin, under policies; and clients for it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import anyio
import httpx2
import mcp_types
from cli_support import COMMAND, Cli, wait_for_line, words_to_fork
from fake_distributions import install
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import Implementation

ENDS_S = 10.0
LINE_BYTES = 1 << 26


@asynccontextmanager
async def speaking(process: subprocess.Popen[bytes]) -> AsyncGenerator[Any]:
    """Yield the streams of a client; in the end close the pipe of *process* and wait for it."""
    assert process.stdin is not None
    assert process.stdout is not None
    heard, for_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_client, to_say = anyio.create_memory_object_stream[SessionMessage](0)
    lines = asyncio.StreamReader(LINE_BYTES)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)

    async def hear() -> None:
        async with heard:
            async for line in lines:
                await heard.send(SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def say() -> None:
        assert process.stdin is not None
        async for message in to_say:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await asyncio.to_thread(process.stdin.write, f"{text}\n".encode())

    try:
        async with heard, for_client, from_client, to_say, anyio.create_task_group() as tasks:
            tasks.start_soon(hear)
            tasks.start_soon(say)
            yield for_client, from_client
            tasks.cancel_scope.cancel()
    finally:
        process.stdin.close()
        await asyncio.to_thread(process.wait, ENDS_S)
        pipe.close()


NATIVE = '''
import base64, os
from typing import Any
from pluggent_hookspecs import File, Image, Text, ToolError, ToolOutput, tool

DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
LISTS, READS, PROMPTS, GETS = (f"mcp:{each}" for each in
    ("resources/list", "resources/read", "prompts/list", "prompts/get"))
ENTRIES = [
    {"uri": "test://static-text", "name": "text", "description": "Text.", "type": "text/plain"},
    {"uri": "test://static-binary", "name": "binary", "description": "A dot.", "type": "image/png"},
    {"template": "test://template/{id}/data", "name": "data", "description": "Data.", "type": "application/json"},
]

def read(uri: str, text: str, kind: str = "text/plain") -> ToolOutput:
    return ToolOutput(text, data={"contents": [{"uri": uri, "mimeType": kind, "text": text}]})

@tool(effects=(), tags=(LISTS,))
def list_resources() -> dict[str, Any]:
    """List."""
    return {"entries": ENTRIES}

@tool(effects=(), tags=(READS,))
def read_resource(uri: str) -> ToolOutput:
    """Read."""
    if uri == "test://static-text":
        return read(uri, "This is the content of the static text resource.")
    if uri == "test://static-binary":
        return ToolOutput((Image(data=DOT),), data={"contents": [{"uri": uri, "mimeType": "image/png"}]})
    if uri == "test://template/broken":
        raise ToolError("the disk is gone")
    if uri.startswith("test://template/"):
        return read(uri, '{"id":"%s"}' % uri.split("/")[3], "application/json")
    return ToolOutput("there is no such thing", is_error=True, data={"code": -32602})

@tool(effects=(), tags=(LISTS,))
def sealed__list_resources() -> dict[str, Any]:
    """List what may not be read, and what is listed already."""
    return {"entries": [{"uri": "sealed://letter", "name": "letter"}, {"uri": "test://static-text", "name": "other"}]}

@tool(effects=(), tags=(READS,))
def sealed__read_resource(uri: str) -> ToolOutput:
    """Read what a policy denies."""
    return read(uri, "open")

@tool(effects=(), tags=(LISTS,))
def many__list_resources() -> dict[str, Any]:
    """List much."""
    some = [{"uri": f"many://{at}", "name": str(at)} for at in range(250)]
    return {"entries": [*some, {"template": "many://{at}/more", "name": "more"}]}

@tool(effects=(), tags=(READS,))
def many__read_resource(uri: str) -> ToolOutput:
    """Read what is longer than a model may see."""
    return read(uri, "x" * 100_000)

@tool(effects=(), tags=("mcp:completion/complete",))
def many__complete_argument(argument: str, prompt: str = "", template: str = "", value: str = "") -> ToolOutput:
    """Say too much, and in the data what the text has not."""
    values = [f"{value}{at}" for at in range(250)]
    return ToolOutput(" ".join(values), data={"values": ["unsaid", 7, *values], "more": "yes"})

@tool(effects=(), tags=(READS,))
def lonely_read_resource(uri: str) -> str:
    """Read what is not listed."""
    return uri

def said(role: str, **content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}

def given(name: str, *arguments: str) -> dict[str, Any]:
    return {"name": name, "description": f"Says {name}.",
            "arguments": [{"name": each, "required": True, "description": "Any."} for each in arguments]}

@tool(effects=(), tags=(PROMPTS,))
def list_prompts() -> dict[str, Any]:
    """List."""
    return {"entries": [
        given("test_simple_prompt"), given("test_prompt_with_arguments", "arg1", "arg2"),
        given("test_prompt_with_embedded_resource", "resourceUri"), given("test_prompt_with_image"), given("leak"),
    ]}

@tool(effects=(), tags=(GETS,))
def get_prompt(name: str, arguments: dict[str, str]) -> ToolOutput:
    """Get."""
    text = {"test_simple_prompt": "This is a simple prompt for testing.",
            "test_prompt_with_arguments": "with {arg1} and {arg2}",
            "leak": "the key is " + os.environ["ACME_KEY"]}.get(name, "Please look.").format(**arguments)
    messages = [said("user", type="text", text=text)]
    if name == "test_prompt_with_image":
        messages.insert(0, said("assistant", type="image", mimeType="image/png"))
        return ToolOutput((Image(data=DOT), Text(text)), data={"messages": messages})
    if name == "test_prompt_with_embedded_resource":
        uri = arguments["resourceUri"]
        inside = {"uri": uri, "mimeType": "text/plain", "text": "Embedded resource content for testing."}
        messages.insert(0, said("user", type="resource", resource=inside))
        return ToolOutput(f"[{uri}] {inside['text']} {text}", data={"messages": messages})
    return ToolOutput(text, data={"messages": messages})

TOOLS = [list_resources, read_resource, sealed__list_resources, sealed__read_resource, many__list_resources,
         many__read_resource, many__complete_argument, lonely_read_resource, list_prompts, get_prompt]
'''


WAIT_S = 30.0
KEY = "acme-7Hq2-zzPw-0451"
"""A secret that a tool gives away, and pluggent-redact takes out."""
SERVE = ("--config", "mine.toml", "mcp", "serve")
BLOCKED = "pluggent-audit,pluggent-budget,pluggent-office-hours"
CONFIG = """
[plugins.pluggent-redact]
secrets = ["env:ACME_KEY"]

[[plugins.pluggent-permissions.rules]]
id = "no"
decision = "deny"
when.tool = "acme:tool/forbidden"
tell_model = "not over this wire"

[[plugins.pluggent-permissions.rules]]
id = "sealed"
decision = "deny"
when.tool = "acme:tool/sealed__read_resource"
tell_model = "the letter is sealed"

[[plugins.pluggent-permissions.rules]]
id = "stranger"
decision = "deny"
when.origin = "mcp"
when.principal = "claimed:stranger"
tell_model = "not for strangers"
"""
TOOLS = '''
import asyncio, base64, os, sys
import acme_native
from pluggent_hookspecs import Audio, File, Image, Text, ToolContext, ToolError, ToolOutput, ToolSpec, hookimpl, tool

DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
image, audio = Image(data=DOT), Audio(base64.b64encode(b"RIFF0000WAVE").decode())
file = File(data=base64.b64encode(b"1;2").decode(), filename="table 1.csv", media_type="text/csv")
pure = tool(effects=())
meeting, over = asyncio.Barrier(2), asyncio.Event()

@tool(name="test_simple_text", effects=())
def simple_text() -> str:
    """Say something."""
    return "This is a simple text response for testing."

@tool(name="test_image_content", effects=())
def image_content() -> ToolOutput:
    """Show a dot."""
    return ToolOutput((image,))

@tool(name="test_audio_content", effects=())
def audio_content() -> ToolOutput:
    """Play nothing."""
    return ToolOutput((audio,))

@tool(name="test_embedded_resource", effects=())
def embedded_resource() -> ToolOutput:
    """Hand out a file."""
    return ToolOutput((file,))

@tool(name="test_multiple_content_types", effects=())
def multiple_content_types() -> ToolOutput:
    """Do all at once."""
    return ToolOutput((Text("Multiple content types test:"), image, file, Image(url="https://acme.test/dot.png")))

@tool(name="test_error_handling", effects=())
def error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")

@tool(name="test_tool_with_progress", effects=())
async def tool_with_progress(context: ToolContext) -> str:
    """Tell how far it is."""
    for done in (0, 50, 100):
        context.progress(done, 100, f"step {done}")
        await asyncio.sleep(0)
    return "done"

@pure
def facts() -> ToolOutput:
    """Return data."""
    return ToolOutput("22 degrees", data={"degrees": 22})

@pure
def several() -> ToolOutput:
    """Return a list."""
    return ToolOutput("1, 2", data=[1, 2])

@tool(effects=("shell",))
def reboot() -> str:
    """Reboot."""
    return "rebooted"

@pure
def forbidden() -> str:
    """Do what a policy denies."""
    return "done"

@pure
def leak() -> ToolOutput:
    """Give a secret away."""
    key = os.environ["ACME_KEY"]
    return ToolOutput(f"the key is {key}", data={"key": key})

@pure
def noisy() -> str:
    """Print where a protocol is spoken."""
    print("noise", flush=True)
    os.write(1, b"more noise\\n")
    return "quiet"

@pure
async def meet() -> str:
    """Wait for another call."""
    await meeting.wait()
    return "met"

@pure
async def forever(context: ToolContext) -> str:
    """Never end."""
    context.progress(1)
    try:
        await asyncio.Event().wait()
    finally:
        over.set()

@pure
async def was_cancelled() -> str:
    """Wait until forever has ended."""
    await over.wait()
    return "it was"

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
        "street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]}, "else": {"required": ["email"]},
    "additionalProperties": False,
}

HEADED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

class Headed:
    spec = ToolSpec("headed", "Takes what is in a header too.", HEADED, effects=())
    async def call(self, arguments, context):
        return arguments.get("region", "nowhere")

class Schematic:
    spec = ToolSpec("json_schema_2020_12_tool", "Takes much.", SCHEMA, effects=())
    async def call(self, arguments, context):
        return "taken"

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [simple_text, image_content, audio_content, embedded_resource,
                multiple_content_types, error_handling, tool_with_progress, facts, several, reboot,
                forbidden, leak, noisy, meet, forever, was_cancelled, Schematic(), Headed(), *acme_native.TOOLS]
'''


BEHIND = Path(__file__).with_name("mcp_sdk.py")


def settings_behind(name: str, secret: str, *, wanted: bool = True) -> str:
    """Return the settings of a server of mcp_sdk.py as TOML; *wanted* switches on what it offers beside tools."""
    switch = str(wanted).lower()
    command, *words = words_to_fork(BEHIND, name, secret)
    return (
        f"\n[plugins.pluggent-mcp.mcpServers.{name}]\ncommand = {command!r}\n"
        f"args = {words!r}\nresources = {switch}\nprompts = {switch}\n"
    )


def made(folder: Path) -> Cli:
    """Return a command beside which the plugin ``acme`` is installed, with policies in mine.toml."""
    cli = Cli(folder)
    install(
        cli.site, "acme", {"tools/acme": "acme_served:Tools"}, modules={"acme_served": TOOLS, "acme_native": NATIVE}
    )
    (cli.work / "mine.toml").write_text(CONFIG, encoding="utf-8")
    return cli


def environ(cli: Cli, **more: str) -> dict[str, str]:
    """Return the environment of the process."""
    return cli.environ(**_own(cli), **more)


def _own(cli: Cli) -> dict[str, str]:
    return {"PLUGGENT_BLOCK": BLOCKED, "ACME_KEY": KEY, "HOME": str(cli.work.parent)}


def arguments(*words: str, fresh: bool = False) -> list[str]:
    """Return what to type behind the name of Python. A *fresh* one starts as clients do, others by fork."""
    if fresh:
        return [*COMMAND[1:], *SERVE, *words]
    return words_to_fork(None, *SERVE, *words)[1:]


@asynccontextmanager
async def over_stdio(
    cli: Cli, *words: str, mode: str = "auto", name: str = "tester", fresh: bool = False, **more: Any
) -> AsyncGenerator[Client]:
    """Start the command, and shake hands over its pipes. A *fresh* one is started as clients do."""
    options: dict[str, Any] = {"mode": mode, "client_info": Implementation(name=name, version="1"), **more}
    with (cli.work / "errors.txt").open("w", encoding="utf-8") as errors:
        if fresh:
            parameters = StdioServerParameters(
                command=sys.executable, args=arguments(*words, fresh=True), env=environ(cli), cwd=str(cli.work)
            )
            streams = stdio_client(parameters, errlog=errors)
        else:
            streams = speaking(
                cli.process(
                    *SERVE, *words, environ=_own(cli),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
                )
            )  # fmt: skip
        async with Client(streams, **options) as client:
            yield client


@asynccontextmanager
async def client_of(served: "Served", mode: str = "auto", name: str = "tester", **more: Any) -> AsyncGenerator[Client]:
    """Shake hands with a server that runs."""
    options: dict[str, Any] = {"mode": mode, "client_info": Implementation(name=name, version="1"), **more}
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}, timeout=WAIT_S) as http,
        Client(streamable_http_client(served.url, http_client=http), **options) as client,
    ):
        yield client


class Served(NamedTuple):
    """A server over HTTP that runs."""

    url: str
    token: str
    process: "subprocess.Popen[str]"
    cli: Cli


@contextmanager
def over_http(cli: Cli, *words: str, token_is_set: bool = False, **more: str) -> Generator[Served]:
    """Start the command with ``--http`` on a port of its own; end it with SIGTERM."""
    process = cli.process(
        *SERVE, "--http", "127.0.0.1:0", *words, environ={**_own(cli), **more},
        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        url = wait_for_line(process, "serving at").split()[-1]
        token = "" if token_is_set else wait_for_line(process, "Authorization: Bearer").split()[-1]
        yield Served(url, token, process, cli)
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


class Spoken:
    """The command over stdio, with its pipes in the test's hands."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self.process = cli.process(
            *SERVE, *words, environ=_own(cli),
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=WAIT_S)

    def say(self, *lines: Any) -> None:
        """Write *lines*: texts as they are, anything else as JSON."""
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write(f"{line if isinstance(line, str) else json.dumps(line)}\n")
        self.process.stdin.flush()

    def hear(self, count: int) -> list[Any]:
        """Read *count* messages."""
        assert self.process.stdout is not None
        return [json.loads(self.process.stdout.readline()) for _ in range(count)]
