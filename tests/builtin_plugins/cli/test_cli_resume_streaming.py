"""``pluggent resume`` shows the answer as it comes, as ``run`` does."""

import json
import os
from pathlib import Path

import pytest
from cli_support import Cli, approve, sent
from fake_distributions import install
from screens import Screen

MODULE = '''
import asyncio
import pathlib

from pluggent_hookspecs import Finished, FinishReason, Message, ModelResponse, Role, TextDelta, ToolCall
from pluggent_hookspecs import ToolCallDelta, Usage, hookimpl, tool


class Slow:
    """Asks for a mail to be sent, and then says what comes out of the pipe ``words``."""

    name = "slow"
    target = "memory:"

    async def complete(self, request):
        if request.messages[-1].role is not Role.TOOL:
            calls = (ToolCall("c1", "send_mail", '{"to":"bob"}'),)
            return ModelResponse(Message.assistant((), calls), FinishReason.TOOL_CALLS, Usage(1, 1))
        words = "".join([batch[0].text async for batch in self.stream(request) if isinstance(batch[0], TextDelta)])
        return ModelResponse(Message.assistant(words), FinishReason.STOP, Usage(1, 1))

    async def stream(self, request):
        if request.messages[-1].role is not Role.TOOL:
            yield (ToolCallDelta(0, "c1", "send_mail", '{"to":"bob"}'),)
            yield (Finished(FinishReason.TOOL_CALLS, Usage(1, 1), request.model),)
            return
        with await asyncio.to_thread(open, "words", "rb", 0) as pipe:
            while data := await asyncio.to_thread(pipe.read, 4096):
                yield (TextDelta(data.decode()),)
        yield (Finished(FinishReason.STOP, Usage(1, 1), request.model),)


@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    """Send a mail."""
    with pathlib.Path("sent.txt").open("a") as file:
        file.write(to + ";")
    return f"sent to {to}"


class Plugin:
    @hookimpl
    def provide_providers(self, event):
        return [Slow()]


class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail]
'''


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    groups = {"providers/slow": "acme_slow:Plugin", "tools/mail": "acme_slow:Tools"}
    install(made.site, "acme-slow", groups, modules={"acme_slow": MODULE})
    os.mkfifo(made.work / "words")
    return made


def waiting(cli: Cli) -> None:
    done = cli("run", "-m", "slow/x", "--session", "s", "go")
    assert done.code == 6, done
    approve(cli, "s", "c1")


def test_the_answer_is_on_the_screen_before_it_is_whole(cli: Cli) -> None:
    waiting(cli)

    with cli.at_terminal("resume", "s") as terminal, (cli.work / "words").open("w") as model:
        model.write("# Title\n\nSome *half of")
        model.flush()
        terminal.then("Title")
        terminal.then("Some *half")
        model.write(" it* text\n")
        model.close()
        done = terminal.end()

    screen = Screen(100, 40)
    screen.feed(done.out)
    assert (done.code, sent(cli)) == (0, "bob;")
    assert "Title\n\nSome half of it text" in screen.text


@pytest.mark.parametrize("more", [(), ("--no-stream",)])
def test_in_a_pipe_the_answer_is_what_the_model_wrote(cli: Cli, more: tuple[str, ...]) -> None:
    waiting(cli)
    resumed = cli.start("resume", *more, "s")

    (cli.work / "words").write_text("**bold**\n")

    out, _ = resumed.communicate(timeout=60)
    assert (resumed.returncode, out) == (0, "**bold**\n")


def test_json_is_one_document(cli: Cli) -> None:
    waiting(cli)
    resumed = cli.start("resume", "--json", "s")

    (cli.work / "words").write_text("done")

    document = json.loads(resumed.communicate(timeout=60)[0])
    assert (document["why"], document["text"]) == ("completed", "done")
    assert [call["tool"] for call in document["tool_calls"]] == ["send_mail"]
