"""A tool asks the person at the terminal for data: one prompt a field, checked, and nothing without a yes."""

import pytest
from each_of import each_of
from pluggent_cli.approvals.prompts import DECLINE, HELP, SEND, read_value
from pluggent_contract_values.question_fields import Field, FieldKind, Option
from screens import GREETING

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
CITY, DAYS, UNIT, NOTE = "City\\x1b[2J: ", "days [3]: ", "unit: ", "note (Enter leaves it out): "
CALL = ("tools", "call", "book")


@pytest.fixture
def cli(cli):
    cli.plugin("acme", TOOL)
    return cli


def test_a_person_fills_in_one_field_after_the_other_and_agrees(cli):
    keys = [CITY, "Oslo\n", DAYS, "\n", UNIT, "1\n", NOTE, "\n", SEND, "y\n"]
    done = cli.talk(*CALL, keys=keys, NO_COLOR="1")

    assert "'far away', by way of acme:tool/book, asks you:\n  | Where to?\\x07\n" in done.out
    assert "City\\x1b[2J [city]: text, minLength 2\n" in done.out
    assert "    1. Celsius (c)\n    2. f\n" in done.out
    assert HELP in " ".join(done.out.split())
    assert (done.code, "Accepted {'city': 'Oslo', 'unit': 'c', 'days': 3}" in done.out) == (0, True)


def test_what_does_not_fit_is_asked_for_again(cli):
    done = cli.talk(*CALL, keys=[
        CITY, "O\n", CITY, "Oslo\n", DAYS, "many\n", "that is not a whole number", "", DAYS, "12\n", DAYS, "2\n",
        UNIT, "kelvin\n", "'kelvin' is not one of them; type its number from 1 to 2", "", UNIT, "f\n",
        NOTE, "by train\n", SEND, "yes\n",
    ])  # fmt: skip

    assert "Accepted {'city': 'Oslo', 'days': 2, 'note': 'by train', 'unit': 'f'}" in done.out


@each_of(
    ("keys", "answer", "code"),
    [
        ([CITY, "\n", DECLINE, "\n", CITY, "\n", DECLINE, "y\n"], "Declined {}", 0),
        ([CITY, "Oslo\n", DAYS, "\n", UNIT, "c\n", NOTE, "\n", SEND, "\n"], "Declined {}", 0),
        ([CITY, "\x04"], "Cancelled {}", 0),
        ([CITY, "\x03"], "", 130),
    ],
)
def test_nothing_is_sent_without_a_yes(cli, keys, answer, code):
    done = cli.talk(*CALL, keys=keys)

    assert (done.code, answer in done.out, "Accepted" in done.out) == (code, True, False)


def test_without_a_terminal_it_is_cancelled_at_once(cli):
    assert cli(*CALL).out == "Cancelled {}\n"


def test_a_run_and_a_chat_ask_too_and_the_chat_goes_on(cli):
    run = cli.talk("run", "book", keys=[CITY, "\x04"])
    chat = cli.talk("chat", keys=[GREETING, "book\r", CITY, "\x04", "Cancelled {}", "", "\x1b[?25h", "\x04"])

    assert "Cancelled {}" in run.out
    assert chat.code == 0


A_OR_B = (Option("a", "A"), Option("b", "B"))


@each_of(
    ("field", "typed", "value"),
    [
        (Field("x", FieldKind.TEXT), "12", "12"),
        (Field("x", FieldKind.INTEGER), "-12", -12),
        (Field("x", FieldKind.NUMBER), "12", 12),
        (Field("x", FieldKind.NUMBER), "1.5", 1.5),
        (Field("x", FieldKind.YES_NO), "NO", False),
        (Field("x", FieldKind.CHOICE, options=(Option("2", "two"), Option("b", "B"))), "2", "2"),
        (Field("x", FieldKind.CHOICE, options=A_OR_B), "2", "b"),
        (Field("x", FieldKind.CHOICES, options=A_OR_B), "1, B,", ["a", "b"]),
    ],
)
def test_what_is_typed_means_a_value(field, typed, value):
    assert read_value(field, typed) == value


@each_of("field", [Field("x", kind, options=A_OR_B[:1]) for kind in FieldKind if kind is not FieldKind.TEXT])
def test_what_means_no_value_is_refused(field):
    with pytest.raises(ValueError, match=r"is not|yes or no"):
        read_value(field, "perhaps")
