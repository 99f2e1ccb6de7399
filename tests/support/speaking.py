"""A model for tests of the terminal: it says what it is told to, as slowly as a test wants."""

from pathlib import Path

from fake_distributions import install

MODULE = '''
import asyncio
import pathlib

from pluggent_hookspecs import FinishReason, Message, ModelResponse, ProviderError, ProviderErrorKind, Role, ToolCall
from pluggent_hookspecs import TextDelta, ToolCallDelta, Finished, Usage, hookimpl, tool


class Speaker:
    """``speaker/x``: ``say TEXT`` is said word by word, ``read FILE`` says what is in a file or comes out of a pipe.

    ``fail`` raises; ``hang`` says two words and nothing more; ``call NAME JSON`` makes a call,
    after some words if ``then call`` stands in front of it, and before those of ``words`` if it is ``read call``.
    Everything else is echoed.
    """

    name = "speaker"
    target = "memory:"

    async def complete(self, request):
        message = Message.assistant("".join([text async for text in self._words(request)]))
        return ModelResponse(message, FinishReason.STOP, Usage(1, 1))

    async def stream(self, request):
        calling = False
        async for piece in self._words(request):
            if isinstance(piece, ToolCall):
                calling = True
                yield (ToolCallDelta(0, piece.id, piece.name, piece.arguments),)
            else:
                yield (TextDelta(piece),)
            await asyncio.sleep(0)
        reason = FinishReason.TOOL_CALLS if calling else FinishReason.STOP
        yield (Finished(reason, Usage(10, 5, cost_usd=0.25), request.model),)

    async def _words(self, request):
        last = request.messages[-1]
        if last.role is Role.TOOL:
            if any(message.text.startswith("read call ") for message in request.messages):
                async for text in _file("words"):
                    yield text
            else:
                yield "The tool said: " + last.text
            return
        verb, _, rest = last.text.partition(" ")
        if verb == "then":
            yield "Let me *see*.\\n\\nI will call a tool"
            verb, _, rest = rest.partition(" ")
        if verb == "read" and rest.startswith("call "):
            verb, _, rest = rest.partition(" ")
        if verb == "call":
            name, _, arguments = rest.partition(" ")
            yield ToolCall(f"c{len(request.messages)}", name, arguments or "{}")
        elif verb == "fail":
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, "the model is \\x1b[2Jout of order", provider="speaker")
        elif verb == "hang":
            yield "One moment please"  # a policy may hold the end of it back
            await asyncio.Event().wait()
        elif verb == "silent":
            await asyncio.Event().wait()
        elif verb == "say":
            for word in rest.replace("\\\\n", "\\n").split(" "):
                yield word + " "
        elif verb == "read":
            async for text in _file(rest):
                yield text
        else:
            parts = [type(part).__name__ for part in last.content[1:]]
            yield f"{request.model} heard: {last.text}" + (f" {parts}" if parts else "")


async def _file(name):
    file = await asyncio.to_thread(open, name, "rb", 0)
    with file:
        while data := await asyncio.to_thread(file.read, 4096):
            yield data.decode()


@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    """Send a mail."""
    with pathlib.Path("sent.txt").open("a") as file:
        file.write(to + "\\n")
    return f"sent to {to}"


@tool(effects=())
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()


class Models:
    @hookimpl
    def provide_providers(self, event):
        return [Speaker()]


class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail, wait]
'''


def install_speaker(site: Path) -> None:
    """Install the provider ``speaker`` and two tools: ``send_mail``, which asks, and ``wait``, which never ends."""
    install(
        site,
        "acme-speaker",
        {"providers/speaker": "acme_speaker:Models", "tools/speaker": "acme_speaker:Tools"},
        modules={"acme_speaker": MODULE},
    )
