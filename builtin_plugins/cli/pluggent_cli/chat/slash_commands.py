"""The slash commands of a chat."""

from __future__ import annotations

import asyncio
import shlex
import textwrap
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Message, Role, Usage
from pluggent_plugin_loader.names import plugin_of
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_transcript.rebuild import Exchange

from pluggent_cli.chat.attachments import attach
from pluggent_cli.chat.completer import Completion, paths
from pluggent_cli.chat.conversation import Chat
from pluggent_cli.chat.cost import cost_lines
from pluggent_cli.chat.external_editor import edited
from pluggent_cli.parsing import full_stop
from pluggent_cli.sessions.pending import SHORT
from pluggent_cli.terminal.console import cut, wrapped
from pluggent_cli.terminal.tool_listing import find_tool, tool_document, tool_row
from pluggent_cli.terminal.tty import check_outside


class Command(NamedTuple):
    """A command, its argument, its help, and other names that people try."""

    name: str
    argument: str
    help: str
    run: Callable[[Chat, str], Awaitable[None]]
    others: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"{self.name} {self.argument}".rstrip()


def is_command(line: str) -> bool:
    """Say whether *line* is a command: one that begins with a space, or with a path, is a message.

    >>> is_command("/help"), is_command(" /help"), is_command("/etc/hosts has what?")
    (True, False, False)
    """
    return line.startswith("/") and "/" not in line[1:].partition(" ")[0] and "\n" not in line


async def obey(chat: Chat, line: str) -> None:
    """Run the command in *line*. Raises ConfigError for an unknown one, and what the command raises."""
    name, _, argument = line.partition(" ")
    command = _BY_NAME.get(name)
    if command is None:
        hint = " /help shows all commands. To send it as a message, begin the line with a space"
        raise ConfigError(name, [f"there is no such command{full_stop(did_you_mean(name, _BY_NAME))}{hint}"])
    argument = argument.strip()
    if argument and not command.argument:
        raise ConfigError(name, [f"takes nothing behind it, got {argument!r}"])
    await command.run(chat, argument)


def completion(chat: Chat) -> Completion:
    """Return what can be completed in *chat*."""
    known = {command.name: command.help for command in COMMANDS}
    return Completion(
        known,
        {
            "/help": lambda _: known,
            "/model": lambda _: _models(chat),
            "/tools": lambda _: [tool.name for tool in chat.talk.session.tools],
            "/attach": paths,
            "/detach": lambda _: [str(number) for number in range(1, len(chat.attached) + 1)],
            "/retry": lambda typed: [f"{_ANOTHER} {name}" for name in _models(chat)] if typed else [f"{_ANOTHER} "],
            "/approve": lambda _: [each.call_id for each in chat.talk.session.pending],
        },
    )


def _models(chat: Chat) -> Iterable[str]:
    providers = [
        record.name
        for record, state, _ in chat.talk.host.plugins
        if record.kind == "provider" and state in ("active", "available")
    ]
    return dict.fromkeys([*chat.models, *(f"{name}/" for name in providers)])


# ---- looking ----------------------------------------------------------------------------


async def _help(chat: Chat, argument: str) -> None:
    shown = [one for one in COMMANDS if not argument or argument.lstrip("/") in one.name]
    if not shown:
        raise ConfigError("/help", [f"there is no command {argument!r}{did_you_mean(argument, _BY_NAME)}"])
    wide = max(len(one.usage) for one in shown)
    in_columns = chat.console.width >= wide + _LEAST_HELP
    for one in shown:
        about = one.help + (f" (also {', '.join(one.others)})" if one.others else "")
        lines = textwrap.wrap(about, chat.console.width - (wide + 4 if in_columns else 4))
        first = f"  {lines.pop(0)}" if in_columns else ""
        chat.console.line(
            "  " + chat.console.ink("bold", one.usage) + " " * (wide - len(one.usage)) * in_columns + first
        )
        for line in lines:
            chat.console.line(" " * (wide + 4 if in_columns else 4) + line)
    for text in () if argument else _KEYS:
        for line in textwrap.wrap(text, chat.console.width - 2):
            chat.console.line("  " + chat.console.ink("dim", line))


def _print(chat: Chat, text: str, style: str = "plain") -> None:
    """Print *text* in lines that the terminal does not break."""
    for line in wrapped(text, chat.console.width):
        chat.console.line(chat.console.ink(style, line))


_LEAST_HELP = 30
_KEYS = (
    "A new line: Alt-Enter, or \\ before Return. Pasted lines stay together. Ctrl-X Ctrl-E: your editor.",
    "Ctrl-C ends the turn and keeps the conversation; it empties a line, which the arrow keys bring back.",
    "Ctrl-D leaves. What is typed while the model answers is read afterwards.",
    "A line that begins with a space is a message, and is not remembered for the arrow keys.",
)


async def _tools(chat: Chat, argument: str) -> None:
    tools = chat.talk.session.tools
    if argument:
        chat.console.document(tool_document(find_tool(chat.talk.session, argument, "/tools")))
    elif tools:
        chat.console.table(("TOOL", "PLUGIN", "EFFECTS", "CALLS"), [tool_row(tool) for tool in tools])
    else:
        chat.console.line("no tools are offered")


async def _cost(chat: Chat, _: str) -> None:
    for line in cost_lines(chat.talk.host, chat.talk.session, chat.last):
        _print(chat, line)


async def _session(chat: Chat, _: str) -> None:
    session, saved = chat.talk.session, not chat.talk.options.no_save
    _print(chat, f"session {session.id}, {len(session.history)} messages, model {escape_all(session.model)}")
    how = f"continue it: pluggent chat --session {session.id}" if saved else "it is not saved (--no-save)"
    _print(chat, how, "dim")


# ---- changing ---------------------------------------------------------------------------


async def _model(chat: Chat, argument: str) -> None:
    session = chat.talk.session
    if argument:
        await session.use(model=chat.talk.setup.model_named(argument))
        chat.models = list(dict.fromkeys([session.model, *chat.models]))
    chat.console.line(f"model {chat.console.ink('bold', escape_all(session.model))}")


async def _undo(chat: Chat, _: str) -> None:
    taken = await chat.talk.session.undo()
    if taken is None:
        chat.console.line("there is nothing to take back")
        return
    chat.console.line(f"taken back: {_first_words(taken.message, chat.console.width - 14)}")
    _say_effects(chat, taken)


def _say_effects(chat: Chat, taken: Exchange) -> None:
    """Say what tools have done in what was *taken* back, and how to put it back where that is possible."""
    chat.undone = taken if taken.put_backs else None
    if taken.put_backs:
        changes = "1 change" if len(taken.put_backs) == 1 else f"{len(taken.put_backs)} changes"
        _print(chat, f"{changes} of its tools can be put back: /restore", "yellow")
    elif taken.effects:
        tools = ", ".join(dict.fromkeys(id.rpartition("/")[2] for id in taken.effects))
        plugins = ", ".join(dict.fromkeys(plugin_of(id) for id in taken.effects))
        _print(chat, f"what was done stays done: {escape_all(tools)} ({escape_all(plugins)})", "yellow")


_ANOTHER = "-m"


async def _retry(chat: Chat, argument: str) -> None:
    session = chat.talk.session
    option, _, model = argument.partition(" ")
    if argument and (option not in (_ANOTHER, "--model") or not model.strip()):
        raise ConfigError("/retry", [f"takes {_ANOTHER} PROVIDER/MODEL or nothing, got {argument!r}"])
    if model:
        await _model(chat, model.strip())
    message = chat.unsaid
    if message is None:
        taken = await session.undo()
        if taken is None:
            chat.console.line("there is nothing to say again")
            return
        message = taken.message
        _say_effects(chat, taken)
    chat.attached = []
    _print(chat, f"again: {_first_words(message, chat.console.width - 9)}", "dim")
    chat.talk.explain(await chat.say(message), answer_with="now")


async def _edit(chat: Chat, argument: str) -> None:
    if not chat.typed:
        raise ConfigError("/edit", ["wants a person at a terminal"])
    history = chat.talk.session.history
    before = next((one.text for one in reversed(history) if one.role is Role.USER), "")
    text = argument or (chat.unsaid.text if chat.unsaid is not None else "") or before
    with chat.talk.terminal_given():
        text = await asyncio.to_thread(edited, text)
    if text.strip():
        chat.draft = text if argument else chat.privately(text)
    else:
        chat.console.line("the text is empty, so there is nothing to send")


async def _restore(chat: Chat, _: str) -> None:
    undone, chat.undone = chat.undone, None
    if undone is None:
        _print(chat, "nothing that was taken back can be put back")
        return
    for each, output in await chat.talk.session.put_back(undone):
        said = output.for_model if isinstance(output.for_model, str) else "done"
        name = each.capability.rpartition("/")[2]
        _print(chat, f"{escape_all(name)}: {escape_all(said)}", "red" if output.is_error else "plain")


def _first_words(message: Message, columns: int) -> str:
    text = escape_all(" ".join(message.text.split()))
    return cut(text, max(20, columns)) if text else "(no text)"


async def _resume(chat: Chat, _: str) -> None:
    if chat.talk.session.paused:
        chat.talk.explain(await chat.resume(), answer_with="now")
    else:
        _print(chat, "no turn waits for an approval")


async def _approve(chat: Chat, argument: str) -> None:
    session = chat.talk.session
    waiting = session.pending
    if argument:
        waiting = tuple(one for one in waiting if argument == one.call_id or _is_digest(argument, one.digest))
        if not waiting:
            known = ", ".join(one.call_id for one in session.pending) or "none"
            raise ConfigError("/approve", [f"no call {argument!r} waits; these do: {known}"])
    if not waiting:
        more = "; /resume continues the turn" if session.paused else ""
        _print(chat, f"nothing waits for an approval{more}")
        return
    check_outside("/approve")
    # Here and not above: most chats need no prompt of their own.
    from pluggent_cli.approvals.prompts import ask_about

    with chat.talk.terminal_lent():
        answers = await ask_about(waiting, chat.console.err_ink)
    chat.talk.explain(await chat.resume(answers), answer_with="now")


def _is_digest(typed: str, digest: str) -> bool:
    return len(typed) >= SHORT and digest.startswith(typed)


async def _attach(chat: Chat, argument: str) -> None:
    if argument:
        chat.attached.append(await asyncio.to_thread(attach, _path(argument), chat.console.note))
    _say_attached(chat)


async def _detach(chat: Chat, argument: str) -> None:
    if argument and not (argument.isdecimal() and 1 <= int(argument) <= len(chat.attached)):
        count = len(chat.attached)
        raise ConfigError("/detach", [f"expected a number from 1 to {count}, got {argument!r}: see /attach"])
    if argument:
        del chat.attached[int(argument) - 1]
    else:
        chat.attached.clear()
    _say_attached(chat)


def _say_attached(chat: Chat) -> None:
    if not chat.attached:
        chat.console.line("nothing is attached")
        return
    _print(chat, "this goes along with your next message; /detach NUMBER takes it away:")
    for number, each in enumerate(chat.attached, 1):
        chat.console.line(f"  {number}  {cut(each.shown, chat.console.width - 8)}")


def _path(typed: str) -> str:
    """Return *typed* as the path of a file; what a terminal puts around a file dropped on it is taken away."""
    if Path(typed).expanduser().exists():
        return typed
    try:
        words = shlex.split(typed)
    except ValueError:
        return typed
    return words[0] if len(words) == 1 else typed


async def _new(chat: Chat, _: str) -> None:
    talk = chat.talk
    before = talk.session.id
    await talk.open(talk.host, model=talk.session.model)
    chat.attached.clear()
    chat.unsaid, chat.undone, chat.last, chat.private = None, None, Usage(), False
    kept = "is gone" if talk.options.no_save else f"is kept: --session {before}"
    _print(chat, f"a new conversation, {talk.session.id}; the one before {kept}")


async def _quit(chat: Chat, _: str) -> None:
    chat.left = True


COMMANDS = (
    Command("/help", "[COMMAND]", "what can be typed here", _help, ("/?",)),
    Command("/model", "[PROVIDER/MODEL]", "the model; another one from now on", _model),
    Command("/tools", "[TOOL]", "the tools that the model is offered; all about one", _tools),
    Command("/attach", "[FILE|URL]", "send a file along with the next message; what is attached", _attach, ("/image",)),
    Command("/detach", "[NUMBER]", "take this attachment away, or all of them", _detach),
    Command("/edit", "[TEXT]", "write in your editor ($VISUAL, $EDITOR); it begins with the last message", _edit),
    Command("/retry", "[-m MODEL]", "say the last message again, to another model from now on", _retry),
    Command("/approve", "[CALL]", "answer what waits for an approval, and continue the turn", _approve),
    Command("/resume", "", "continue a turn that waits for an approval", _resume),
    Command("/undo", "", "take back the last message and all that came of it", _undo),
    Command("/restore", "", "put back what tools have changed in what /undo has taken back", _restore),
    Command("/new", "", "begin a new conversation; this one is kept", _new, ("/clear", "/reset")),
    Command("/session", "", "which conversation this is", _session),
    Command("/cost", "", "tokens and money, of the session and of the last turn", _cost, ("/usage", "/tokens")),
    Command("/quit", "", "leave", _quit, ("/exit", "/bye", "/q")),
)
"""In the order in which people look for them."""

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.others)}
