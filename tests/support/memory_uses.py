"""A store, every use of it, and every way to it."""

from collections.abc import Callable
from typing import Any

from pluggent_hookspecs import MemoryAccess, MemoryHit, MemoryItem, MemoryPage, MemoryQuery, ToolContext, hookimpl, tool
from pluggent_testing.fakes import call
from policy_stage import Stage, stage


class Store:
    """A store that remembers what was asked of it."""

    name = "notes"

    def __init__(self, *items: MemoryItem, error: Exception | None = None) -> None:
        self.items = {(item.namespace, item.key): item for item in items}
        self.calls: list[str] = []
        self.error = error

    @hookimpl
    def provide_memory(self, event: Any) -> list[object]:
        return [self]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.error is not None:
            raise self.error

    async def save(self, items: Any) -> tuple[MemoryItem, ...]:
        self._called("save")
        self.items.update({(item.namespace, item.key): item for item in items})
        return tuple(items)

    async def get(self, namespace: str, key: str) -> MemoryItem | None:
        self._called("get")
        return self.items.get((namespace, key))

    async def delete(self, namespace: str, key: str) -> bool:
        self._called("delete")
        return self.items.pop((namespace, key), None) is not None

    async def list(self, query: MemoryQuery) -> MemoryPage:
        self._called("list")
        return MemoryPage(tuple(i for (n, _), i in sorted(self.items.items()) if n == query.namespace), "next")

    async def search(self, namespace: str, text: str, limit: int = 10) -> tuple[MemoryHit, ...]:
        self._called("search")
        hits = [MemoryHit(item, 0.5) for (n, _), item in self.items.items() if n == namespace and text in item.text]
        return tuple(hits[:limit])

    async def aclose(self) -> None:
        self.calls.append("aclose")


def note(key: str = "k", text: str = "the text", namespace: str = "n") -> MemoryItem:
    return MemoryItem(namespace, key, text)


READS: dict[str, Callable[[MemoryAccess], Any]] = {
    "get": lambda memory: memory.get("n", "k"),
    "list": lambda memory: memory.list(MemoryQuery("n")),
    "search": lambda memory: memory.search("n", "text"),
}
WRITES: dict[str, Callable[[MemoryAccess], Any]] = {
    "save": lambda memory: memory.save([note("new")]),
    "delete": lambda memory: memory.delete("n", "k"),
}
USES = {**READS, **WRITES}


async def by_host(use: Callable[[MemoryAccess], Any], on: Stage, outcome: list[Any]) -> None:
    try:
        outcome.append(await use(on.host.memory("notes")))
    except Exception as error:  # noqa: BLE001 (what came of it is what the test looks at)
        outcome.append(error)


async def attempt(way: str, use: str, *plugins: object, store: Store, **options: Any) -> Any:
    """Use *store* as the application does, or as a tool does; return what came of it."""
    outcome: list[Any] = []

    @tool(effects=("memory",))
    async def remember(context: ToolContext) -> str:
        """Use the memory."""
        try:
            outcome.append(await USES[use](context.memory("notes")))
        except Exception as error:  # noqa: BLE001 (as above)
            outcome.append(error)
        return "used"

    async with stage(call("remember"), plugins=[*plugins, store], tools=[remember], **options) as on:
        if way == "host":
            await by_host(USES[use], on, outcome)
        elif way == "tool":
            await on.session.say("go")
        else:
            await on.session.call_tool("remember", {})
    (only,) = outcome
    return only
