"""Lines that are drawn in place: gone without trace, whatever the terminal makes of them."""

import fcntl
import os
import termios
from collections.abc import Iterator

import pytest
from pluggent_cli.terminal.live import Live, terminal_size
from screens import Screen


class Recorder:
    """A stream on a terminal of its own, whose size can be changed, and which shows what is written."""

    def __init__(self, columns: int, rows: int) -> None:
        self._person, self._terminal = os.openpty()
        self.screen = Screen(columns, rows)
        self.resize(columns, rows)
        self.raw = ""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, bytes((rows, 0, columns, 0, 0, 0, 0, 0)))

    def fileno(self) -> int:
        return self._terminal

    def write(self, text: str) -> None:
        self.raw += text
        self.screen.feed(text)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._person)
        os.close(self._terminal)


@pytest.fixture
def stream() -> Iterator[Recorder]:
    made = Recorder(40, 10)
    yield made
    made.close()


@pytest.fixture
def live(stream):
    return Live(stream, escapes=True)


def lines(*texts: str) -> list[tuple[str, int]]:
    return [(text, len(text)) for text in texts]


def test_lines_take_the_place_of_those_before_and_go_away(stream, live):
    stream.write("above\n")

    live.draw(lines("one", "two", "three"))
    assert stream.screen.text == "above\none\ntwo\nthree"
    live.draw(lines("four"))
    assert stream.screen.text == "above\nfour"
    before = stream.raw
    live.draw(lines("four"))
    assert stream.raw == before, "the same lines are not drawn again"
    live.clear()
    live.clear()
    stream.write("below\n")
    assert stream.screen.text == "above\nbelow"


def test_nothing_is_left_of_lines_at_the_bottom_of_the_screen(stream, live):
    stream.write("line\n" * 30)

    for count in (5, 2, 7, 1):
        live.draw(lines(*[f"row {n}" for n in range(count)]))
    live.clear()

    assert stream.screen.text == "\n".join(["line"] * 30)


def test_a_line_that_is_wider_than_was_thought_takes_one_row(stream, live):
    stream.write("above\n")

    live.draw([("x" * 60, 30), ("second", 6)])
    live.clear()

    assert stream.screen.text == "above"


def test_lines_that_a_narrower_terminal_has_broken_are_all_taken_away(stream, live):
    live.draw([("a" * 30, 30), ("b" * 40, 40), ("c", 1)])
    stream.resize(20, 10)

    live.clear()

    assert stream.raw.count("\x1b[2K") == 5  # 2 + 2 + 1


def test_what_was_there_before_a_stop_is_left_alone(stream, live):
    live.draw(lines("one", "two"))
    live.forget()
    stream.write("\nshell\n")

    live.draw(lines("three"))

    assert stream.screen.text == "one\ntwo\nshell\nthree"


def test_without_escapes_one_line_is_drawn_by_writing_over_it(stream):
    live = Live(stream, escapes=False)
    stream.write("above\n")

    live.draw(lines("first", "waiting for 漢字 · 10 s"))
    live.draw(lines("waiting · 9 s"))
    assert stream.screen.text == "above\nwaiting · 9 s"
    live.draw(lines("x" * 100))
    live.clear()
    stream.write("below\n")

    assert "\x1b" not in stream.raw
    assert stream.screen.text == "above\nbelow"


def test_a_terminal_that_does_not_know_its_size_has_the_usual_one(stream, tmp_path):
    stream.resize(0, 0)
    with (tmp_path / "file").open("w") as file:
        assert terminal_size(file) == terminal_size(stream) == os.terminal_size((80, 24))
