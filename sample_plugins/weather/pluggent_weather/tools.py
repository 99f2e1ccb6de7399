"""Two tools. The weather is sample data, computed from the city's name; no network."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pluggent_hookspecs import Json, Param, ToolContext, ToolOutput, tool

from pluggent_weather.sample_data import Weather, weather_on

City: TypeAlias = Annotated[str, Param(min_length=1, max_length=100)]
Unit: TypeAlias = Literal["celsius", "fahrenheit"]


@tool(effects=())
async def weather(city: City, unit: Unit = "celsius") -> ToolOutput:
    """Tell the weather in a city now.

    Args:
        city: The city, for example Beijing.
        unit: The unit of the temperature.
    """
    today = weather_on(city, day=0)
    data: Json = {"city": city, "celsius": today.celsius, "sky": today.sky, "sample": True}
    return ToolOutput(f"{_shown(today, unit)} in {city} (sample data)", data=data)


@tool(effects=())
def forecast(city: City, context: ToolContext, days: Annotated[int, Param(ge=1, le=7)] = 3) -> str:
    """Forecast the weather in a city, a line a day.

    Args:
        city: The city, for example Paris.
        context: Reports the progress to the host.
        days: How many days, from tomorrow.
    """
    lines = [f"{city} (sample data)"]
    for day in range(1, days + 1):
        lines.append(f"day {day}: {_shown(weather_on(city, day), 'celsius')}")
        context.progress(day, days, f"day {day} of {days}")
    return "\n".join(lines)


def _shown(weather: Weather, unit: Unit) -> str:
    if unit == "fahrenheit":
        return f"{weather.celsius * 9 / 5 + 32:.0f} °F, {weather.sky}"
    return f"{weather.celsius} °C, {weather.sky}"
