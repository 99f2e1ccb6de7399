"""A tool asks the person at the terminal for data: one prompt a field, checked, and nothing without a yes."""

import pytest
from cli_support import Cli
from fake_distributions import install
from pluggent_cli.approvals.question_prompt import DECLINE, HELP, SEND, read_value
from pluggent_host.operations.forms import Field, Kind, Option
from screens import GREETING, prompted

TOOL = """
from pluggent_hookspecs import ToolContext, hookimpl, tool

SCHEMA = {
    "type": "object",
    "required": ["city", "unit"],
    "properties": {
        "city": {"type": "string", "title": "City\\x1b[2J", "minLength": 2},
        "days": {"type": "integer", "default": 3, "maximum": 9},
        "unit": {"type": "string", "oneOf": [{"const": "c", "title": "Celsius"}, {"const": "f"}]},
        "note": {"type": "string"},
    },
}

@tool(effects=())
async def book(context: ToolContext) -> str:
    '''Book a trip.'''
    answer = await context.elicit("Where to?\\x07", SCHEMA, source="far away")
    return f"{type(answer).__name__} {dict(getattr(answer, 'content', {}))}"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [book]
"""
PROMPT = "City\\x1b[2J: "
CALL = ("tools", "call", "book")


@pytest.fixture
def cli(tmp_path):
    made = Cli(tmp_path)
    install(made.site, "acme", {"tools/acme": "acme_book:Plugin"}, modules={"acme_book": TOOL})
    return made


def test_a_person_fills_in_one_field_after_the_other_and_agrees(cli):
    with cli.at_terminal(*CALL, NO_COLOR="1") as terminal:
        shown = terminal.then(PROMPT)
        terminal.type("Oslo\n")
        terminal.then("days [3]: ")
        terminal.type("\n")
        terminal.then("unit: ")
        terminal.type("1\n")
        terminal.then("note (Enter leaves it out): ")
        terminal.type("\n")
        terminal.then(SEND)
        terminal.type("y\n")
        done = terminal.end()

    assert "'far away', by way of acme:tool/book, asks you:\n  | Where to?\\x07\n" in shown
    assert "City\\x1b[2J [city]: text, minLength 2\n" in shown
    assert "    1. Celsius (c)\n    2. f\n" in shown
    assert HELP in " ".join(shown.split())
    assert done.code == 0
    assert "Accepted {'city': 'Oslo', 'unit': 'c', 'days': 3}" in done.out


def test_what_does_not_fit_is_asked_for_again(cli):
    with cli.at_terminal(*CALL) as terminal:
        terminal.then(PROMPT)
        terminal.type("O\n")
        assert "  " in terminal.then(PROMPT)
        terminal.type("Oslo\n")
        terminal.then("days [3]: ")
        terminal.type("many\n")
        assert "that is not a whole number" in terminal.then("days [3]: ")
        terminal.type("12\n")
        terminal.then("days [3]: ")
        terminal.type("2\n")
        terminal.then("unit: ")
        terminal.type("kelvin\n")
        assert "'kelvin' is not one of them; type its number from 1 to 2" in terminal.then("unit: ")
        terminal.type("f\n")
        terminal.then("it out): ")
        terminal.type("by train\n")
        terminal.then(SEND)
        terminal.type("yes\n")
        done = terminal.end()

    assert "Accepted {'city': 'Oslo', 'days': 2, 'note': 'by train', 'unit': 'f'}" in done.out


def test_nothing_given_is_an_offer_to_decline(cli):
    with cli.at_terminal(*CALL) as terminal:
        terminal.then(PROMPT)
        terminal.type("\n")
        terminal.then(DECLINE)
        terminal.type("\n")
        terminal.then(PROMPT)
        terminal.type("\n")
        terminal.then(DECLINE)
        terminal.type("y\n")
        done = terminal.end()

    assert "Declined {}" in done.out


def test_what_was_filled_in_is_not_sent_without_a_yes(cli):
    with cli.at_terminal(*CALL) as terminal:
        for prompt, typed in (
            (PROMPT, "Oslo\n"),
            ("days [3]: ", "\n"),
            ("unit: ", "c\n"),
            ("out): ", "\n"),
            (SEND, "\n"),
        ):
            terminal.then(prompt)
            terminal.type(typed)
        done = terminal.end()

    assert "Declined {}" in done.out


def test_ctrl_d_leaves_the_question(cli):
    with cli.at_terminal(*CALL) as terminal:
        terminal.then(PROMPT)
        terminal.type("\x04")
        done = terminal.end()

    assert "Cancelled {}" in done.out


def test_ctrl_c_ends_the_command(cli):
    with cli.at_terminal(*CALL) as terminal:
        terminal.then(PROMPT)
        terminal.type("\x03")
        done = terminal.end()

    assert done.code == 130


def test_where_nobody_is_there_it_is_cancelled_at_once(cli):
    assert cli(*CALL).out == "Cancelled {}\n"


def test_a_run_asks_too(cli):
    with cli.at_terminal("run", "book") as terminal:
        terminal.then(PROMPT)
        terminal.type("\x04")

        assert "Cancelled {}" in terminal.end().out


def test_a_chat_asks_too_and_goes_on(cli):
    with cli.at_terminal("chat") as terminal:
        terminal.then(GREETING)
        terminal.type("book\r")
        terminal.then(PROMPT)
        terminal.type("\x04")
        terminal.then("Cancelled {}")
        prompted(terminal)
        terminal.type("\x04")
        done = terminal.end()

    assert done.code == 0


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        (Field("x", Kind.TEXT), "12", "12"),
        (Field("x", Kind.INTEGER), "-12", -12),
        (Field("x", Kind.NUMBER), "12", 12),
        (Field("x", Kind.NUMBER), "1.5", 1.5),
        (Field("x", Kind.YES_NO), "NO", False),
        (Field("x", Kind.CHOICE, options=(Option("2", "two"), Option("b", "B"))), "2", "2"),
        (Field("x", Kind.CHOICE, options=(Option("a", "A"), Option("b", "B"))), "2", "b"),
        (Field("x", Kind.CHOICES, options=(Option("a", "A"), Option("b", "B"))), "1, B,", ["a", "b"]),
    ],
)
def test_what_is_typed_means_a_value(field, typed, value):
    assert read_value(field, typed) == value


@pytest.mark.parametrize(
    "field",
    [Field("x", kind, options=(Option("a", "A"),)) for kind in Kind if kind is not Kind.TEXT],
    ids=lambda field: field.kind.name,
)
def test_what_means_none_is_refused(field):
    with pytest.raises(ValueError, match=r"is not|yes or no"):
        read_value(field, "perhaps")
