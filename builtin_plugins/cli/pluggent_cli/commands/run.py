"""``pluggent run``: one turn. The answer goes to standard output, what happens to standard error."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Part
from pluggent_host.turns.next_step import Why
from pluggent_host.turns.result import TurnResult

from pluggent_cli import exits, process
from pluggent_cli.chat.loop import CODES, Talk, complete, open_talk
from pluggent_cli.host_access import Setup, prepare
from pluggent_cli.parsing import Parser, add_talking_options, command_parser, examples, limit_flags, typed_text
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console
from pluggent_cli.terminal.live import PlainAnswer
from pluggent_cli.terminal.tty import Keys

if TYPE_CHECKING:  # for those who use one
    from pluggent_cli.inputs.templates import PromptTemplate

_GO_ON = 'run -c "…"'


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "run",
        "[OPTIONS] [PROMPT …]",
        "Run one turn: the prompt goes to the model, its tool calls pass the policies, the answer is printed.\n"
        "Without a model configured, the offline model answers: it makes the tool calls that you type.",
        examples(
            'pluggent run "weather city=Beijing & forecast city=Paris days=2"',
            'pluggent run --model openai/gpt-5-mini "Shall I take an umbrella in Paris?"',
            'git diff | pluggent run "What does this change do?"',
            'pluggent run -a cat.png "What is this?"',
            'pluggent run -c "And in one sentence?"                continue the last session of this folder',
            'pluggent run --session trip "Where was I going?"      continue an earlier conversation',
            'pluggent run --schema "name, age int" "Invent a person"',
            "pluggent run -f notes.md -t review -p tone=kind       a template of the settings",
            "pluggent run --json --no-tools < question.txt",
        )
        + "\n\nWhat is piped in follows the prompt, marked as data; without a prompt it is the prompt, and - puts it\n"
        "in the middle of one. To leave standard input alone: </dev/null\n\n"
        "A call that needs approval is put to you at the terminal. Where there is none the turn pauses (exit\n"
        'code 6) and says how to approve it and continue; with --no-save, or on_ask = "deny", it is denied (3).',
    )
    made.add_argument(
        "prompt",
        metavar="PROMPT",
        nargs="*",
        type=typed_text,
        help="what to say; - is standard input, as is none at all",
    )
    made.add_argument("-f", "--file", metavar="FILE", action="append", default=[], help="put the text of this file"
                      " behind the prompt (repeatable)")  # fmt: skip
    made.add_argument("-t", "--template", metavar="TEMPLATE", default="", help="fill this prompt of the settings,"
                      " [templates]")  # fmt: skip
    made.add_argument("-p", "--param", metavar="NAME=VALUE", type=typed_text, action="append", default=[],
                      help="what stands for $NAME in the template (repeatable)")  # fmt: skip
    made.add_argument("--schema", metavar="SCHEMA", type=typed_text, default="", help="answer with JSON of this form: a"
                      ' file of JSON Schema, or its fields, as "name, age int"')  # fmt: skip
    made.add_argument("-x", "--extract", action="store_true", help="print the last code block of the answer alone")
    add_talking_options(made)
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the turn and return the exit code."""
    flags = limit_flags(options)
    if options.schema and options.extract:
        raise ConfigError("--extract", ["contradicts --schema; give one of the two"])
    setup = prepare(options, console, flags)
    complete(setup, options)
    schema = _schema(options, console)
    content = _content(setup, options, console)
    log_to(console, debug=options.debug)
    keys = Keys()
    return process.run(_turn(setup, options, console, content, schema, keys), before_dying=keys.release)


def _schema(options: argparse.Namespace, console: Console) -> Mapping[str, Any] | None:
    if not options.schema:
        return None
    from pluggent_cli.inputs.schema import read_schema  # here and not above: most answers are free

    return read_schema(options.schema, console.error)


def _content(setup: Setup, options: argparse.Namespace, console: Console) -> tuple[str | Part, ...]:
    """Return what is said. A template may also choose the model and the system prompt."""
    # Here and not above, with what is behind it: completion reads the parser of this command.
    from pluggent_cli.inputs.prompt import Given, read_prompt

    template: PromptTemplate | None = None
    parameters: Mapping[str, str] = {}
    if options.template or options.param:
        # Here and not above: most prompts are typed.
        from pluggent_cli.inputs.templates import find_template, read_parameters

        parameters = read_parameters(options.param, options.template)
        template = find_template(setup.command.templates, options.template)
        options.model = options.model or setup.model_named(template.model)
        options.system = template.system or None if options.system is None else options.system
    given = Given(options.prompt, options.file, options.attach, options.image, template, parameters)
    return read_prompt(given, console.error)


async def _turn(
    setup: Setup,
    options: argparse.Namespace,
    console: Console,
    content: Sequence[str | Part],
    schema: Mapping[str, Any] | None,
    keys: Keys,
) -> int:
    async with open_talk(setup, options, console, keys, pausing=True) as talk:
        if talk.session.paused and not talk.session.pending:
            await _fetched(talk, console)
        if talk.session.paused:
            _check_withdrawing(talk, options)
            console.note(console.err_ink("yellow", "note: what waited for an approval here is withdrawn by this"))
        says_where = options.continues or not options.session
        try:
            if schema is None and not options.extract:
                result = await talk.turn(content)
            else:
                result = await talk.unprinted_turn(content, schema)
        except asyncio.CancelledError:
            console.note("\ninterrupted" if console.err_is_terminal else "interrupted")
            if says_where:
                talk.say_where(_GO_ON)
            raise
        code = _print(talk, options, console, result)
        talk.explain(result, answer_with="with --session")
        if says_where and result.why is not Why.PAUSED:
            talk.say_where(_GO_ON)
    return code


async def _fetched(talk: Talk, console: Console) -> None:
    """Let the last turn come to its end, whose reply is made in the background, or whose process ended."""
    console.note("the last turn here is not over; it goes on first")
    await talk.resume()


def _check_withdrawing(talk: Talk, options: argparse.Namespace) -> None:
    """Raise ConfigError where something that waits for an approval would be withdrawn, and was not named."""
    if options.continues:
        id = talk.session.id
        problem = f"the last session of this folder, {id}, waits for an approval; to continue it: pluggent resume {id}"
        raise ConfigError("--continue", [f"{problem}; to say something instead, which withdraws it: --session {id}"])


def _print(talk: Talk, options: argparse.Namespace, console: Console, result: TurnResult[Any]) -> int:
    """Print what ``Talk.turn`` has not: a document, JSON of the schema, a code block. Return the exit code."""
    code = CODES[result.why]
    block: str | None = None
    more: dict[str, Any] = {}
    if options.schema:
        more = {"output": result.value}
    elif options.extract and code == exits.OK:
        # Here and not above: most answers are printed whole.
        from pluggent_cli.terminal.code_blocks import last_code_block

        block = last_code_block(result.text)
        more = {"code": block}
        code = exits.FAILED if block is None else code
    if console.json:
        console.document({**talk.document(result), **more, "exit_code": code})
    elif options.schema and result.has_output:
        console.document(result.output)
    elif block is not None:
        answer = PlainAnswer(console)
        answer.add(block)
        answer.end()
    elif options.extract and "code" in more:
        console.error(f"{console.err_ink('red', 'error:')} the answer has no code block; to read it: pluggent last")
    return code
