"""How a hook is declared and implemented: its kind, its row in the table, ``@hookimpl``, ``call_next``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import attrs
import pluggy

from pluggent_hookspecs._value import Value
from pluggent_hookspecs.models import ModelRequest

__all__ = ["IMPL_MARK", "PROJECT", "Band", "CallNext", "HookKind", "ImplOptions", "MaybeAsync", "hookimpl"]

PROJECT = "pluggent"
IMPL_MARK = "__pluggent_hookimpl__"

Band: TypeAlias = Literal["host-first", "security", "normal", "late", "host-last"]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_impl_marker = pluggy.HookimplMarker(PROJECT)


class HookKind(StrEnum):
    """How the answers of a hook are combined, and what a failure means."""

    PROVIDE = "provide"
    """Failure: that plugin is failed, the others continue."""
    TRANSFORM = "transform"
    """Failure: the operation fails, naming the plugin."""
    DECIDE = "decide"
    """Failure of any sort, lateness included: deny, naming the plugin."""
    AROUND = "around"
    """Failure: an error of the operation."""
    FIRST = "first"
    """Failure: the next one is asked; observers get the failure."""
    LEDGER = "ledger"
    """Failure of a reservation: deny. Failure of a settlement: logged; observers get it."""
    SINK = "sink"
    """Failure: deny, unless the operator marked the plugin optional; observers get it either way."""
    OBSERVE = "observe"
    """Failure: logged and counted; after five in a row the observer gets no more events."""


@attrs.frozen(repr=False)
class ImplOptions(Value):
    """The options of ``@hookimpl`` on an implementation."""

    band: Band = "normal"
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    blocking: bool = False
    events: tuple[type, ...] = ()
    incremental: int | None = None


@overload
def hookimpl(function: F, /) -> F: ...
@overload
def hookimpl(
    *,
    band: Band = "normal",
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    blocking: bool = False,
    events: Iterable[type] = (),
    incremental: int | None = None,
) -> Callable[[F], F]: ...
def hookimpl(
    function: F | None = None,
    /,
    *,
    band: Band = "normal",
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    blocking: bool = False,
    events: Iterable[type] = (),
    incremental: int | None = None,
) -> F | Callable[[F], F]:
    """Mark a method or function as the implementation of the hook it is named after.

    ``band`` places it between others: ``security`` is for plugins that the operator lists,
    the two host bands for the application's own code. ``before`` and ``after`` name plugin
    ids inside the band. ``blocking`` moves a synchronous implementation into a thread.
    ``events`` limits ``observe`` to some event classes. While a result hook of the model call
    or the output is active, a stream shows nothing before the whole reply has passed it; one with
    ``incremental=N`` leaves the stream to ``transform_delta`` of the same plugin, which may hold
    back up to N characters at a time.

    >>> class Quiet:
    ...     @hookimpl
    ...     def decide_output(self, event):
    ...         return None
    """
    if isinstance(before, str) or isinstance(after, str):
        raise TypeError("before= and after= take several plugin ids: before=('acme-audit',)")
    options = ImplOptions(band, tuple(before), tuple(after), blocking, tuple(events), incremental)

    def mark(implementation: F) -> F:
        setattr(implementation, IMPL_MARK, options)
        return _impl_marker(implementation)

    return mark if function is None else mark(function)


MaybeAsync: TypeAlias = T | Awaitable[T]


class CallNext(Protocol[T_co]):
    """The rest of an operation, seen from an ``around_*`` hook.

    Call it once; plugins that the operator lists as retriers (``may_repeat``) may call it again.
    ``shown`` says whether text of the last attempt was shown, ``discard()`` voids it. ``retrying``
    announces to observers another attempt in ``wait_s`` seconds; without it they get the event when
    it begins.

    ``reissue`` sends another request instead of that of a model call, to *model* (``provider/model``)
    if given. It is an operation of its own below this hook, transformed and decided anew, with an
    approval of its own if needed. For retriers, 3 times an operation. Raises Denied if a policy
    denies it.
    """

    async def __call__(self) -> T_co: ...
    async def reissue(self, changed: ModelRequest, *, model: str = "") -> T_co: ...
    @property
    def shown(self) -> bool: ...
    @property
    def may_repeat(self) -> bool: ...
    def discard(self, why: str = "") -> None: ...
    def retrying(self, wait_s: float) -> None: ...
