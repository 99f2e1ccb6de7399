"""The tools with which the official conformance suite tries logs and questions, as a plugin of this host."""

from pathlib import Path

from cli_support import Cli
from fake_distributions import install
from mcp_serving import BLOCKED, made

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
    # While results are filtered nobody is told of logs.
    cli.environ = lambda **more: {**plain(**more), "PLUGGENT_BLOCK": f"{BLOCKED},pluggent-redact"}  # type: ignore[method-assign]
    return cli
