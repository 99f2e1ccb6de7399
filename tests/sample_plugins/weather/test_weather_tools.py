from __future__ import annotations

import inspect
from typing import Any

import pytest
from pluggent_function_tools.function_tool import function_tool
from pluggent_hookspecs import ProvideEvent, ToolOutput
from pluggent_host import Host
from pluggent_weather.plugin import Weather
from pluggent_weather.tools import forecast, weather


class Watching:
    """As much of a ToolContext as the forecast uses."""

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None]] = []

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        self.told.append((done, total))


def test_the_plugin_offers_both_tools_as_pure():
    tools = [function_tool(each) for each in Weather().provide_tools(ProvideEvent())]

    assert [tool.spec.name for tool in tools] == ["weather", "forecast"]
    assert [tool.spec.effects for tool in tools] == [frozenset(), frozenset()]


def test_a_model_sees_what_the_annotations_say():
    parameters: Any = function_tool(forecast).spec.parameters

    assert set(parameters["properties"]) == {"city", "days"}
    assert parameters["required"] == ("city",)
    assert (parameters["properties"]["days"]["minimum"], parameters["properties"]["days"]["maximum"]) == (1, 7)


async def test_the_weather_is_the_same_each_time_and_says_that_it_is_sample_data():
    first, second = await weather("Beijing"), await weather("Beijing")

    assert first == second
    assert first == ToolOutput(
        "17 °C, windy in Beijing (sample data)",
        data={"city": "Beijing", "celsius": 17, "sky": "windy", "sample": True},
    )


async def test_the_weather_comes_in_fahrenheit_too():
    assert (await weather("Beijing", "fahrenheit")).for_model == "63 °F, windy in Beijing (sample data)"


def test_one_tool_is_async_and_one_is_not():
    assert [inspect.iscoroutinefunction(each) for each in (weather, forecast)] == [True, False]


@pytest.mark.parametrize("days", [1, 3, 7])
def test_the_forecast_has_a_line_a_day_and_tells_its_progress(days: int):
    watching: Any = Watching()

    lines = forecast("Paris", watching, days).splitlines()

    assert lines[0] == "Paris (sample data)"
    assert [line.partition(":")[0] for line in lines[1:]] == [f"day {day}" for day in range(1, days + 1)]
    assert watching.told == [(day, days) for day in range(1, days + 1)]


async def test_any_city_has_weather():
    for city in ("北京", "🎉", "\ud800", " "):
        assert "(sample data)" in str((await weather(city)).for_model)


async def test_a_name_that_a_tool_has_in_common_with_its_plugin_means_the_tool_alone():
    async with Host.open() as host:
        chosen = {name: [tool.name for tool in await host.tools(name)] for name in ("weather", "pluggent-weather")}

    assert chosen == {"weather": ["weather"], "pluggent-weather": ["forecast", "weather"]}
