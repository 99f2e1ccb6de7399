"""mcp_peer.py that dies while it is greeted, as a program over stdin and stdout. In one of these ways:

deaf         it takes no more messages, answers the one that it has, and dies then
leaves:PATH  it has started a process that leaves it and holds its pipes open; the pid is in the file PATH
"""

import json
import os
import sys

from mcp_peer import BEHAVIOUR, Peer, complain, leave, named, send


def main() -> None:
    """Die, in the way that is wanted."""
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


if __name__ == "__main__":
    main()
