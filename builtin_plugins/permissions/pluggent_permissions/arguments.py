"""Whether the arguments of a call are what a rule wants them to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from pluggent_hookspecs import Json, ToolCallEvent

from pluggent_permissions import text_patterns as texts
from pluggent_permissions.argument_settings import NO_HOST, NO_URL, ArgumentTest
from pluggent_permissions.paths import inside_test
from pluggent_permissions.text_patterns import Reading
from pluggent_permissions.urls import host_test, url_test


class Absent(Enum):
    """What stands for a value that a path leads past."""

    ABSENT = "absent"


Found: TypeAlias = "Json | Absent"
ValueTest: TypeAlias = Callable[[Json, str], bool]
"""Takes a value and the session's workspace. Raises where the value is of another type."""


def argument_test(path: str, wanted: ArgumentTest, reading: Reading) -> Callable[[ToolCallEvent], bool]:
    """Return a test of calls: are the values at *path* what is *wanted*, in this *reading*?

    Of an argument that its tool divides (``ToolCallEvent.parts``) each part has to be, where something is allowed;
    one part, or the whole, is enough where something is forbidden.
    """
    names = tuple(path.split("."))
    direct = path if len(names) == 1 and path not in ("*", "**") else None
    one = _tolerant(wanted, reading)
    whole = _whole_test(names, direct, one, wanted, reading)

    def test(event: ToolCallEvent) -> bool:
        divided = [each for name, each in event.parts.items() if direct is None or name == direct]
        if not divided:
            return whole(event)
        fitting = [one(part, event.scope.workspace) for each in divided for part in each]
        # One that has no parts, because its tool could not divide it, is not known to be anything: it counts as the
        # stricter outcome, as all that cannot be evaluated.
        if reading is Reading.WIDE:
            return any(fitting) or not all(divided) or whole(event)
        return all(divided) and all(fitting) and (direct is not None or whole(event))

    return test


def _tolerant(wanted: ArgumentTest, reading: Reading) -> Callable[[Found, str], bool]:
    """Return a test of one value that never raises: what cannot be evaluated counts as the stricter outcome."""
    fits = _value_test(wanted, reading)
    at_absence = reading.in_doubt != wanted.optional
    wide = reading is Reading.WIDE

    def one(value: Found, workspace: str) -> bool:
        if value is Absent.ABSENT or value is None:
            return at_absence
        if isinstance(value, Mapping):
            return wide
        try:
            return fits(value, workspace)
        except Exception:  # noqa: BLE001 (see above)
            return wide

    return one


def _whole_test(
    names: tuple[str, ...],
    direct: str | None,
    one: Callable[[Found, str], bool],
    wanted: ArgumentTest,
    reading: Reading,
) -> Callable[[ToolCallEvent], bool]:
    """Return a test of the values that *names* lead to, each by *one*; *direct* is the name of a parameter."""
    wide = reading is Reading.WIDE
    # Where something is forbidden, the names in objects that a model makes up say as much as their values.
    names_count = wide and names[-1] == "**" and not _beyond_texts(wanted)

    def whole(event: ToolCallEvent) -> bool:
        if direct is not None:  # what is below says the same of a single value, and takes its time
            value = event.arguments.get(direct, Absent.ABSENT)
            if not isinstance(value, list | tuple):
                return one(value, event.scope.workspace)
        answers = [one(value, event.scope.workspace) for value in values_at(event.arguments, names)]
        if names_count and not any(answers):
            answers += [one(each, "") for each in _names_below(event.arguments, names[:-1])]
        if wide:
            return any(answers)
        return all(answers) and (bool(answers) or wanted.optional)

    return whole


def values_at(value: Json, parts: tuple[str, ...]) -> Iterator[Found]:
    """Yield what *parts* lead to, lists item by item: names, indexes, ``*`` for any, ``**`` for every leaf below.

    ABSENT stands for each place at which they lead nowhere. A name may have dots in it.

    >>> list(values_at({"a": [{"b": 1}, {"b": [2, 3]}, {}]}, ("a", "*", "b")))
    [1, 2, 3, <Absent.ABSENT: 'absent'>]
    """
    if not parts:
        yield from _items(value)
    elif parts[0] == "**":
        yield from _leaves(value)
    elif isinstance(value, Mapping):
        yield from _in_mapping(value, parts)
    elif isinstance(value, list | tuple):
        head, *rest = parts
        chosen = [item for index, item in enumerate(value) if head in ("*", str(index))]
        for item in chosen:
            yield from values_at(item, tuple(rest))
        if not chosen and head != "*":
            yield Absent.ABSENT
    else:
        yield Absent.ABSENT


def _in_mapping(value: Mapping[str, Json], parts: tuple[str, ...]) -> Iterator[Found]:
    if parts[0] == "*":
        for member in value.values():
            yield from values_at(member, parts[1:])
        return
    met = False
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        if name in value:
            met = True
            yield from values_at(value[name], parts[length:])
    if not met:
        yield Absent.ABSENT


def _beyond_texts(wanted: ArgumentTest) -> bool:
    """Say whether *wanted* asks for more than what a text has in it."""
    bounds = (wanted.ge, wanted.gt, wanted.le, wanted.lt)
    return bool(wanted.inside) or wanted.url != NO_URL or wanted.host != NO_HOST or bounds != (None,) * len(bounds)


def _names_below(value: Json, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of all objects inside what *parts* lead to; those of the parameters themselves are the tool's."""
    inside = [found for found in values_at(value, parts) if not isinstance(found, Absent)]
    if not parts and isinstance(value, Mapping):
        inside = list(value.values())
    while inside:
        found = inside.pop()
        if isinstance(found, Mapping):
            yield from found
            inside += found.values()
        elif isinstance(found, list | tuple):
            inside += found


def _items(value: Json) -> Iterator[Json]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _items(item)
    else:
        yield value


def _leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value


# ---- values ----------------------------------------------------------------------------


def _value_test(wanted: ArgumentTest, reading: Reading) -> ValueTest:
    """Return a test that holds if every test that *wanted* asks for does."""
    tests: list[ValueTest] = []
    if wanted.glob:
        tests.append(_of_text(texts.glob(wanted.glob, reading), reading))
    if wanted.regex:
        tests.append(_of_text(texts.regex(wanted.regex, reading), reading))
    if wanted.equals:
        equal = texts.equal(wanted.equals, reading)
        tests.append(lambda value, _: equal(value))
    if (wanted.ge, wanted.gt, wanted.le, wanted.lt) != (None, None, None, None):
        tests.append(_bounds(wanted))
    if wanted.inside:
        tests.append(_inside(wanted.inside, reading))
    if wanted.url != NO_URL:
        tests.append(_of_address(url_test(wanted.url, reading)))
    if wanted.host != NO_HOST:
        tests.append(_of_address(host_test(wanted.host, reading)))
    return tests[0] if len(tests) == 1 else lambda value, workspace: all(test(value, workspace) for test in tests)


def _of_text(fits: texts.TextTest, reading: Reading) -> ValueTest:
    return lambda value, _: any(map(fits, texts.texts_of(value, reading)))


def _of_address(fits: texts.TextTest) -> ValueTest:
    return lambda value, _: fits(_str(value))


def _inside(roots: tuple[str, ...], reading: Reading) -> ValueTest:
    fits = inside_test(roots, reading)
    return lambda value, workspace: fits(_str(value), workspace)


def _bounds(wanted: ArgumentTest) -> ValueTest:
    ge, gt, le, lt = wanted.ge, wanted.gt, wanted.le, wanted.lt

    def test(value: Json, _: str) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError("not a number")
        return (
            (ge is None or value >= ge)
            and (gt is None or value > gt)
            and (le is None or value <= le)
            and (lt is None or value < lt)
        )

    return test


def _str(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
