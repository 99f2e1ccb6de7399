"""Options of a wrong type are told at once, in words."""

from typing import Any

import pytest
from pluggent_host import Host


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tools": "weather"}, "write tools="),
        ({"limits": 3}, "expected Limits"),
        ({"limits": {"rounds": 3}}, "there is no limit 'rounds'"),
        ({"config": {"model": "a/b"}}, "expected HostSettings"),
        ({"settings": ["x"]}, "settings: expected"),
    ],
)
async def test_an_option_of_a_wrong_type_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        async with Host.open(installed=False, **options):
            pass


async def test_a_session_tells_the_same() -> None:
    async with Host.open() as host:
        with pytest.raises(TypeError, match="write tools="):
            await host.session(tools="weather")
