"""A disk that is full, for tests of what could not be written."""

import contextlib
import resource
from collections.abc import Callable, Generator


@contextlib.contextmanager
def full_disk() -> Generator[Callable[[int], None]]:
    """Yield what lets files of this process grow to a number of bytes and no further; lift the limit at the end."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
