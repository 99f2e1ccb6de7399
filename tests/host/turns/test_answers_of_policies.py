"""What a policy answers in the place of the model: read in the form that was asked for after the output policies."""

from typing import Any, TypedDict

from pluggent_hookspecs import Message, Respond, hookimpl
from talking import talking


class Person(TypedDict):
    name: str


class Answering:
    """Answers what is said itself, and takes names out of what is shown."""

    @hookimpl
    def decide_input(self, event: Any) -> Respond:
        return Respond(Message.assistant('{"name": "Ann Secret"}'))

    @hookimpl
    def transform_output(self, event: Any) -> Message:
        return Message.assistant(event.message.text.replace("Ann Secret", "[name]"))


async def test_the_output_of_an_answer_is_read_from_what_the_output_policies_let_pass() -> None:
    async with talking(policies=[Answering()]) as session:
        result = await session.say("who is it?", output=Person)

    assert (result.text, result.output) == ('{"name": "[name]"}', {"name": "[name]"})
