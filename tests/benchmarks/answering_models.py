"""A model in this process that calls a tool so many times, and then says that it is done."""

from collections.abc import AsyncGenerator, Sequence

from pluggent_hookspecs import Delta, Message, ModelRequest, ModelResponse, Role, ToolCall, deltas, hookimpl


class Caller:
    """A provider called ``caller`` whose models answer a person with *count* calls of *tool*, and results with text."""

    name = "caller"
    target = "memory:"

    def __init__(self, count: int, tool: str = "add") -> None:
        calls = tuple(ToolCall(f"call_{n}", tool, f'{{"a": {n}, "b": 1}}') for n in range(count))
        self._calls = ModelResponse(Message.assistant((), calls))

    @hookimpl
    def provide_providers(self, event: object) -> list["Caller"]:
        return [self]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        if request.messages[-1].role is Role.USER:
            return self._calls
        return ModelResponse(Message.assistant("done"))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        yield deltas(await self.complete(request))
