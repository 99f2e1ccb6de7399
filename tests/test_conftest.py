"""What conftest.py promises to every test."""

import os
import socket
from pathlib import Path

import pytest


def test_a_test_reaches_this_machine_alone():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
    with socket.socket() as outwards, pytest.raises(RuntimeError, match=r"this machine only, not 192\.0\.2\.1"):
        outwards.connect(("192.0.2.1", 80))
    with pytest.raises(RuntimeError, match=r"this machine only, not example\.org"):
        socket.getaddrinfo("example.org", 80)
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("nowhere.invalid", 80)


def test_a_test_has_an_empty_home_and_no_settings_of_the_user():
    assert list(Path.home().iterdir()) == []
    assert [name for name in os.environ if name.startswith(("PLUGGENT_", "XDG_")) or name.endswith("_API_KEY")] == []
