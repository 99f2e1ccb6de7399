"""A vendor on loopback, and the command of a new user who sets it up."""

from collections.abc import Generator
from pathlib import Path

import pytest
from cli_support import Cli
from setup_dialog import Setup
from vendor_server import Vendor, vendor


@pytest.fixture
def server() -> Generator[Vendor]:
    with vendor() as running:
        yield running


@pytest.fixture
def setup(cli: Cli, server: Vendor, tmp_path: Path) -> Setup:
    return Setup(cli, server.url, tmp_path / "home")
