"""Stands for a process that the fork server starts, for one that can start programs alone, such as an MCP client.

    python -I -S forked.py DOOR PROGRAM [ARGUMENT ...]          PROGRAM: a file, or empty for the command

The process gets the standard streams, the variables and the folder of this one, and this one ends as it does;
if this one ends first, the process is told to end too. Imports little: it starts in a hundredth of the time.
"""

import json
import os
import socket
import struct
import sys


def main() -> int:
    """Have the process started, and wait for its end."""
    door, program, *arguments = sys.argv[1:]
    mask = os.umask(0)
    os.umask(mask)
    request = {
        "arguments": arguments, "cwd": os.getcwd(), "environ": dict(os.environ),  # noqa: PTH109 (pathlib is half the time)
        "terminal": None, "umask": mask, "first": "", "files": {}, "program": program,
    }  # fmt: skip
    data = json.dumps(request).encode()
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as line, os.fdopen(reader, encoding="ascii") as said:
        line.connect(door)
        socket.send_fds(line, [struct.pack("!I", len(data))], [0, 1, 2, writer])
        line.sendall(data)
        os.close(writer)
        _let_go()
        said.readline()  # its id
        status = os.waitstatus_to_exitcode(int(said.readline()))
    return status if status >= 0 else 128 - status


def _let_go() -> None:
    """Close the standard streams: they are those of the process now."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
