"""Texts that cannot be written down are replaced before they join a conversation."""

from pluggent_hookspecs import File, Message
from talking import hosting


async def test_half_a_character_in_a_given_history_is_replaced():
    history = [Message.user("a"), Message.assistant("b \ud800"), Message.user(File(data="", filename="\udcff"))]
    async with hosting("fine") as host:
        session = await host.session(history=history)
        assert (await session.say("go")).text == "fine"
        assert session.history[0] is history[0]
        assert session.history[1].text == "b \ufffd"
