"""A table of plain values as one test, for bodies that cost less than what pytest adds; ids of such values."""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Self

import pytest

_FAILURES = (Exception, BaseExceptionGroup, pytest.fail.Exception)


def each_of(
    names: str | Sequence[str], values: Iterable[Any], ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Run the test for every value, as ``pytest.mark.parametrize`` does, and name all that fail.

    What fixtures give is shared: it is for tests that change nothing.
    """
    parameters = [names] if isinstance(names, str) else [*names]
    cases = [dict(zip(parameters, _case(value, parameters), strict=True)) for value in values]
    given = [*zip(_names(ids, cases), cases, strict=True)]
    assert given

    def decorate(test: Callable[..., Any]) -> Any:
        looped: Any
        if inspect.iscoroutinefunction(test):

            @wraps(test)
            async def in_turn(*own: Any, **fixtures: Any) -> None:
                with _Failures(test, len(given)) as failures:
                    for name, case in given:
                        try:
                            await test(*own, **fixtures, **case)
                        except _FAILURES as failure:
                            failures.add(name, failure)

            looped = in_turn
        else:

            @wraps(test)
            def one_by_one(*own: Any, **fixtures: Any) -> None:
                with _Failures(test, len(given)) as failures:
                    for name, case in given:
                        try:
                            test(*own, **fixtures, **case)
                        except _FAILURES as failure:
                            failures.add(name, failure)

            looped = one_by_one

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in parameters]
        looped.__signature__ = signature.replace(parameters=kept)
        return looped

    return decorate


def _names(ids: Iterable[str] | Callable[[Any], str] | None, cases: Sequence[dict[str, Any]]) -> list[str]:
    if ids is None:
        return [_name(case) for case in cases]
    return [ids(*case.values()) for case in cases] if callable(ids) else [*ids]


class _Failures:
    """Collects what failed, and fails with all of it."""

    def __init__(self, test: Callable[..., Any], count: int) -> None:
        self._count = count
        self._found: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def add(self, name: str, failure: BaseException) -> None:
        failure.add_note(f"value: {name}")
        self._found.append(failure)

    def __exit__(self, *_: object) -> None:
        if self._found:
            names = "; ".join(note for each in self._found for note in each.__notes__)
            raise BaseExceptionGroup(f"{len(self._found)} of {self._count} values failed: {names}", self._found)


def _case(value: Any, parameters: Sequence[str]) -> Sequence[Any]:
    return (value,) if len(parameters) == 1 else tuple(value)


def _name(case: dict[str, Any]) -> str:
    return "-".join(repr(value)[:60] for value in case.values())


def shown(value: object) -> str:
    """Return what *value* looks like, as far as that does not change from run to run."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (some test values cannot be shown, on purpose)
        text = type(value).__name__
    return re.sub(r" at 0x[0-9a-f]+", "", text)
