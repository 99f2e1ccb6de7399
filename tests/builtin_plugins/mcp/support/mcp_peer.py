"""An MCP server over stdin and stdout, written by hand so that it can do what no library does.

As a program: python mcp_peer.py [BEHAVIOUR...]; what it does badly at the start or in its list of
tools is said there, what it does badly in a call is a tool. Two of them have more behaviours:

dying        it dies while it is greeted:
deaf           it takes no more messages, answers the one that it has, and dies then
leaves:PATH    it has started a process that leaves it and holds its pipes open; the pid is in the file PATH
logs         it has a log:
refuses        it answers with an error when it is told from which level on to log
ignores        it answers that with an empty object
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

BEHAVIOUR = set(sys.argv[1:])
OBJECT = {"type": "object"}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
UNASKED: dict[str, dict[str, Any]] = {
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "x", "requestedSchema": {"type": "object", "properties": {}}},
    "roots/list": {},
    "ping": {},
    "no/such": {},
}
"""What is asked right after the start by a peer with a behaviour of that name."""
NOISE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "noise"}}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Peer:
    """Answers until its input ends."""

    def __init__(self) -> None:
        self.cancelled: list[Any] = []
        self.listings = self.root_changes = 0
        self.asked = 0
        self.waiting: dict[str, Any] = {}
        self.tools = [_tool(name.removeprefix("call_")) for name in dir(self) if name.startswith("call_")]
        self.later: list[Any] = []

    def run(self) -> None:
        """Read and answer."""
        for line in sys.stdin:
            message = json.loads(line)
            if "strict" in BEHAVIOUR and message.get("method") == "server/discover":
                complain("expected initialize")
                sys.exit(1)
            if message.get("method") == "tools/call":
                name = message["params"]["name"]
                self.call(message["id"], name, message["params"].get("arguments") or {}, message["params"])
            elif "method" in message and "id" in message:
                send({"jsonrpc": "2.0", "id": message["id"], **self.answer(message)})
            elif "method" in message:
                self.noticed(message)
            else:
                self.given(message)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return result or error of a request."""
        match message["method"]:
            case "initialize":
                version = "2024-11-05" if "old" in BEHAVIOUR else message["params"]["protocolVersion"]
                capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
                if "resources" in BEHAVIOUR:
                    capabilities |= {"resources": {}, "prompts": {}}
                info = {"name": "peer", "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}}
            case "tools/list":
                params: dict[str, Any] = message.get("params") or {}
                return {"result": self.listed(params.get("cursor"))}
            case "ping":
                return {"result": {}}
            case _:
                return {"error": {"code": -32601, "message": "no such method"}}

    def listed(self, cursor: str | None) -> dict[str, Any]:
        """Return one page of the list."""
        self.listings += 1
        if "endless" in BEHAVIOUR:
            return {"tools": [], "nextCursor": f"{int(cursor or 0) + 1}"}
        if "circle" in BEHAVIOUR:
            return (
                {"tools": self.tools, "nextCursor": "again"} if cursor is None else {"tools": [], "nextCursor": "again"}
            )
        if "paged" in BEHAVIOUR:
            at = int(cursor or 0)
            more = {"nextCursor": str(at + 1)} if at + 1 < len(self.tools) else {}
            return {"tools": self.tools[at : at + 1], **more}
        return {"tools": [*self.tools, *self.later, *_bad_tools()]}

    def noticed(self, message: dict[str, Any]) -> None:
        """Take a notification."""
        if message["method"] == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        if message["method"] == "notifications/roots/list_changed":
            self.root_changes += 1
        if message["method"] == "notifications/initialized":
            for method in UNASKED.keys() & BEHAVIOUR:
                self.ask(None, method, UNASKED[method])

    def call(self, id: Any, name: str, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        """Call a tool; what it returns is sent, None is nothing."""
        result = getattr(self, f"call_{name}")(id, arguments, params)
        if result is not None:
            send({"jsonrpc": "2.0", "id": id, "result": result})

    # ---- tools that are as they should be -------------------------------------------------

    def call_echo(self, id: Any, arguments: Any, params: Any) -> Any:
        return text(str(arguments.get("text")))

    def call_fail(self, id: Any, arguments: Any, params: Any) -> Any:
        return text("it did not work") | {"isError": True}

    def call_refuse(self, id: Any, arguments: Any, params: Any) -> Any:
        why = str(arguments.get("why", "not today"))
        send({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": why}})

    def call_everything(self, id: Any, arguments: Any, params: Any) -> Any:
        blocks = [
            {"type": "text", "text": "text"},
            {"type": "image", "data": "AAAA", "mimeType": "image/gif"},
            {"type": "audio", "data": "BBBB", "mimeType": "audio/mpeg"},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "in b"}},
            {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "CCCC", "mimeType": "application/zip"}},
            {"type": "resource", "resource": {"uri": "file:///d.png", "blob": "DDDD", "mimeType": "image/png"}},
        ]
        return {"content": blocks, "structuredContent": {"a": [1, None]}}

    def call_environ(self, id: Any, arguments: Any, params: Any) -> Any:
        return text(json.dumps({**os.environ, "cwd": str(Path.cwd()), "pid": os.getpid()}))

    def call_progress(self, id: Any, arguments: Any, params: Any) -> Any:
        token = params["_meta"]["progressToken"]
        for done in (1, 2):
            said = {"progressToken": token, "progress": done, "total": 2, "message": f"step {done}"}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})
        return text("done")

    def call_log(self, id: Any, arguments: Any, params: Any) -> Any:
        said = {"level": "error", "data": "s3cret " * 1000}
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": said})
        return text("logged")

    def call_wait(self, id: Any, arguments: Any, params: Any) -> Any:
        send({"jsonrpc": "2.0", "method": "notifications/progress",
              "params": {"progressToken": params["_meta"]["progressToken"], "progress": 1}})  # fmt: skip

    def call_counts(self, id: Any, arguments: Any, params: Any) -> Any:
        """Tell how often something came."""
        return text(json.dumps([len(self.cancelled), self.listings, self.root_changes]))

    # ---- asking back ----------------------------------------------------------------------

    def call_sample(self, id: Any, arguments: Any, params: Any) -> Any:
        said = {"role": "user", "content": {"type": "text", "text": "what is it?"}}
        self.ask(
            id, "sampling/createMessage", {"messages": [said], "maxTokens": 7, "systemPrompt": "obey", **arguments}
        )

    def call_sample_often(self, id: Any, arguments: Any, params: Any) -> Any:
        """Ask six times at once; the result is what came of each."""
        self.often: list[Any] = []
        for _ in range(6):
            self.ask(f"often {id}", "sampling/createMessage", UNASKED["sampling/createMessage"])

    def call_elicit(self, id: Any, arguments: Any, params: Any) -> Any:
        self.ask(id, "elicitation/create", {"message": "which city?", "requestedSchema": CITY})

    def call_roots(self, id: Any, arguments: Any, params: Any) -> Any:
        self.ask(id, "roots/list", {})

    def call_unasked(self, id: Any, arguments: Any, params: Any) -> Any:
        """Tell what came of a question that was asked before there was any call."""
        return text(json.dumps(self.later_answer))

    def ask(self, id: Any, method: str, params: dict[str, Any]) -> None:
        """Ask the client; its answer becomes the result of call *id*."""
        self.asked += 1
        # The same ids as the client's own requests: who tells the two apart by ids alone, is lost.
        self.waiting[str(self.asked)] = id
        send({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})

    def given(self, message: dict[str, Any]) -> None:
        """Take an answer of the client."""
        answer: Any = message.get("result", message.get("error"))
        id: Any = self.waiting.pop(str(message["id"]))
        if id is None:
            self.later_answer = answer
        elif str(id).startswith("often "):
            self.often.append(answer)
            if len(self.often) == 6:
                send({"jsonrpc": "2.0", "id": int(str(id).partition(" ")[2]), "result": text(json.dumps(self.often))})
        else:
            send({"jsonrpc": "2.0", "id": id, "result": text(json.dumps(answer))})

    # ---- changing -------------------------------------------------------------------------

    def call_change(self, id: Any, arguments: Any, params: Any) -> Any:
        for tool in self.tools:
            if tool["name"] == "echo":
                tool["description"] = "Another one."
        send(CHANGED)
        return text("changed")

    def call_reshape(self, id: Any, arguments: Any, params: Any) -> Any:
        for tool in self.tools:
            if tool["name"] == "echo":
                tool["inputSchema"] = CITY | {"required": []}
        send(CHANGED)
        return text("changed")

    def call_retitle(self, id: Any, arguments: Any, params: Any) -> Any:
        next(tool for tool in self.tools if tool["name"] == "echo")["title"] = "Says it, and tells the world"
        send(CHANGED)
        return text("changed")

    def call_result(self, id: Any, arguments: Any, params: Any) -> Any:
        next(tool for tool in self.tools if tool["name"] == "echo")["outputSchema"] = OBJECT
        send(CHANGED)
        return text("changed")

    def call_remove(self, id: Any, arguments: Any, params: Any) -> Any:
        self.tools = [tool for tool in self.tools if tool["name"] != "echo"]
        send(CHANGED)
        return text("removed")

    def call_grow(self, id: Any, arguments: Any, params: Any) -> Any:
        self.later.append({"name": "grown", "description": "New.", "inputSchema": OBJECT})
        send(CHANGED)
        return text("grown")

    # ---- tools that are not as they should be ---------------------------------------------

    def call_die(self, id: Any, arguments: Any, params: Any) -> Any:
        complain("out of memory, token=" + os.environ.get("TOKEN", "none"))
        os._exit(9)

    def call_false_id(self, id: Any, arguments: Any, params: Any) -> Any:
        for _ in range(arguments["times"]):
            send({"jsonrpc": "2.0", "id": 987_654, "result": text("for another client")})
        return text("answered")

    def call_long(self, id: Any, arguments: Any, params: Any) -> Any:
        return text("x" * 20_000_000)

    def call_bytes(self, id: Any, arguments: Any, params: Any) -> Any:
        line = json.dumps({"jsonrpc": "2.0", "id": id, "result": text("caf@ au lait")}).encode()
        write(line.replace(b"@", b"\xe9") + b"\n")

    def call_junk(self, id: Any, arguments: Any, params: Any) -> Any:
        write(b'starting up...\n\n\xff\xfe\n{"half": \n[1, 2]\n42\n')
        return text("after the junk")

    def call_only_junk(self, id: Any, arguments: Any, params: Any) -> Any:
        write(b"what a nice day\n" * 1000)

    def call_flood(self, id: Any, arguments: Any, params: Any) -> Any:
        write((json.dumps(NOISE) + "\n").encode() * 30_000)

    def call_chatter(self, id: Any, arguments: Any, params: Any) -> Any:
        complain("chatter " * 100_000)
        return text("said a lot")

    def call_malformed(self, id: Any, arguments: Any, params: Any) -> Any:
        return {"content": "not a list"}

    def call_nan(self, id: Any, arguments: Any, params: Any) -> Any:
        return {"content": [], "structuredContent": {"a": float("nan")}}

    def call_held_up(self, id: Any, arguments: Any, params: Any) -> Any:
        """Return what the pattern of its schema takes a backtracking matcher ages to refuse."""
        return {"content": [], "structuredContent": {"text": "a" * 60 + "!"}}

    def call_spawn(self, id: Any, arguments: Any, params: Any) -> Any:
        code = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        return text(str(child.pid))

    def call_leave(self, id: Any, arguments: Any, params: Any) -> Any:
        """Start a process that leaves: its group and its parent, or its group and its environment."""
        read, told = os.pipe()
        if arguments.get("how") == "wiped":
            code = f"import os, signal; os.write({told}, str(os.getpid()).encode()); signal.pause()"
            self.kept = subprocess.Popen(
                [sys.executable, "-c", code], env={}, start_new_session=True, pass_fds=[told], stdin=subprocess.DEVNULL
            )
        elif os.fork() == 0:
            leave(told)
        return text(os.read(read, 20).decode())

    later_answer: Any = None


def leave(told: int) -> None:
    """Become a daemon that ends by nothing but SIGKILL, and keeps the pipes open."""
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(told, str(os.getpid()).encode())
    while True:
        signal.pause()


def _tool(name: str) -> dict[str, Any]:
    if name == "held_up":
        slow = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a|aa)+$"}}}
        return {"name": name, "inputSchema": OBJECT, "outputSchema": slow}
    hints = {"readOnlyHint": True, "openWorldHint": False} if name == "echo" else None
    words = named("says")
    tool: dict[str, Any] = {
        "name": name,
        "description": words.read_text("utf-8") if name == "echo" and words else f"Does {name}.",
        "inputSchema": TEXT if name == "echo" else OBJECT,
    }
    return tool | ({"annotations": hints} if hints else {})


def _bad_tools() -> Iterator[Any]:
    if "bad" in BEHAVIOUR:
        yield 7
        yield {"name": "no_schema"}
        yield {"name": "text_schema", "inputSchema": "text"}
        yield {"name": "array_schema", "inputSchema": {"type": "array"}}
        yield {"name": "false_schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "strnig"}}}}
        yield {
            "name": "far_schema",
            "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://a.test/b"}}},
        }
        yield {"name": "huge_schema", "inputSchema": {"type": "object", "description": "x" * 100_000}}
        yield {"name": "n" * 300, "inputSchema": OBJECT}
        yield {"name": "", "inputSchema": OBJECT}
        yield {
            "name": "odd",
            "description": 5,
            "annotations": {"readOnlyHint": "yes"},
            "inputSchema": OBJECT,
            "icons": 3,
        }
        yield {"name": "hidden", "description": "Read\u202e me\U000e0041." + "x" * 5000, "inputSchema": OBJECT}
        yield {"name": "echo", "description": "The second echo.", "inputSchema": OBJECT}


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def complain(said: str) -> None:
    sys.stderr.write(said + "\n")
    sys.stderr.flush()


def send(message: object) -> None:
    write((json.dumps(message) + "\n").encode())


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def named(behaviour: str) -> Path | None:
    """Return the path behind a behaviour, None if it is not wanted."""
    return next((Path(word.partition(":")[2]) for word in BEHAVIOUR if word.startswith(f"{behaviour}:")), None)


def main() -> None:
    """Begin well or badly, and serve."""
    needed = named("needs")
    if "dies" in BEHAVIOUR or (needed is not None and not needed.exists()):
        complain("cannot find the database")
        sys.exit(3)
    if "hangs" in BEHAVIOUR:
        complain("waiting for a lock")
        signal.pause()
    if "babbles" in BEHAVIOUR:
        write(b"Welcome!\n" * 1000)
    meeting = named("meets")
    if meeting is not None:
        (meeting / str(os.getpid())).touch()
        while len(list(meeting.iterdir())) < 3:
            time.sleep(0.01)
    starts = named("counts")
    if starts is not None:
        (starts / str(os.getpid())).touch()
    if "stubborn" in BEHAVIOUR:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Peer().run()
    if "stubborn" in BEHAVIOUR:
        while True:
            signal.pause()


def die() -> NoReturn:
    """Die while it is greeted, in the way that is wanted."""
    pid = named("leaves")
    if "deaf" in BEHAVIOUR:
        message = json.loads(sys.stdin.readline())
        os.close(0)
        send({"jsonrpc": "2.0", "id": message["id"], **Peer().answer(message)})
    if pid is not None:
        read, told = os.pipe()
        if os.fork() == 0:
            leave(told)
        pid.write_text(os.read(read, 20).decode(), "utf-8")
    complain("cannot find the database")
    os._exit(3)


class LoggingPeer(Peer):
    """Logs whatever it is told, at whatever level; keeps the level that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[str] = []

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return result or error of a request."""
        if message["method"] == "logging/setLevel":
            self.levels.append(message["params"]["level"])
            if "ignores" in BEHAVIOUR:
                return {}
            return {"error": {"code": -32603, "message": "no log"}} if "refuses" in BEHAVIOUR else {"result": {}}
        answer = super().answer(message)
        if message["method"] == "initialize":
            answer["result"]["capabilities"]["logging"] = {}
        return answer

    def call_say(self, id: Any, arguments: Any, params: Any) -> Any:
        for entry in arguments["entries"]:
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": entry})
        return text("said")

    def call_levels(self, id: Any, arguments: Any, params: Any) -> Any:
        return text(json.dumps(self.levels))


if __name__ == "__main__":
    if "dying" in BEHAVIOUR:
        die()
    if "logs" in BEHAVIOUR:
        LoggingPeer().run()
    else:
        main()
