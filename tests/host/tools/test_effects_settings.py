"""The operator's word on effects must not miss in silence."""

import pytest
from pluggent_hookspecs import ConfigError
from pluggent_host import Host, HostSettings
from talking import hosting


@pytest.mark.parametrize(
    ("tool", "effects", "said"),
    [
        ("pluggent-weather:tool/wether", ("network_read",), "did you mean 'pluggent-weather:tool/weather'"),
        ("pluggent-weather:tool/weather", ("network",), "there is no effect 'network'"),
    ],
)
async def test_a_tool_or_an_effect_that_is_not_there_is_an_error(
    tool: str, effects: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        async with Host.open(config=HostSettings(effects={tool: effects})) as host:
            await host.session(tools=["*"])


@pytest.mark.parametrize("content", [None, 42, {"text": "x"}, ("x", 1), b"bytes"])
async def test_what_cannot_be_said_is_refused_before_anything_is_written(content: object) -> None:
    async with hosting() as host, await host.session() as session:
        before = session.records()
        with pytest.raises(TypeError, match="expected text"):
            await session.say(content)  # type: ignore[arg-type] # the mistake

        assert session.records() == before
