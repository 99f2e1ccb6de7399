"""Splits a shell line into the commands that it runs. Pure.

Strict on purpose: it reads what all of dash, bash and busybox read alike, and refuses the rest. An approval for
later calls relies on this, so a line that is read otherwise by one of them must not be split. Compound commands
(``if``, ``for``, ``{ }``, functions), arithmetic, arrays, brace expansion and the like are refused.
"""

from __future__ import annotations

import re
from shlex import quote

from pluggent_shell.shell_commands import ASSIGNMENT, RESERVED, Command, Here, Step, Word

_DELIMITERS = frozenset(" \t\n;&|()<>")
_APPEND = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+=")
_OPERATOR = re.compile(r"&&|\|\||[|&;\n)]")
_REDIRECTION = re.compile(r"(\d?)(<<-|<<|<>|<&|>>|>&|>\||<|>)")
_COPY = re.compile(r"(?:\d|-)(?=[ \t\n;&|)]|$)")
_HERE = re.compile(r"""(?:'(\w+)'|"(\w+)"|(\w+))(?=[ \t\n;&|)<>]|$)""", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BRACED = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}")
_LITERAL_DOLLAR = frozenset('" /.,:)|%')
"""What may follow a dollar sign within double quotes that stands for itself."""
_BLANK = re.compile(r"(?:[ \t]|(?<=[ \t\n])\\\n)+")
_NULL = "/dev/null"
MOST_DEPTH = 20
LONGEST = 16_384
MOST_COMMANDS = 200


class CannotSplitError(ValueError):
    """The line has something that is not split; the sentence says what."""


def split(line: str) -> tuple[Step, ...]:
    """Return the commands that a shell runs for *line*, in the order of writing. Raises CannotSplitError.

    >>> [(step.joined, step.text) for step in split("git add . && git commit -m 'it works'")]
    [('', 'git add .'), ('&&', "git commit -m 'it works'")]
    """
    if len(line) > LONGEST:
        raise CannotSplitError(f"it is longer than {LONGEST:,} characters")
    for letter in line:
        if not letter.isprintable() and letter not in "\n\t":
            raise CannotSplitError(f"it has the invisible character U+{ord(letter):04X}")
    return _Parser(line).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._substitutions = 0
        self._commands: list[Command] = []
        self._here: list[Here] = []

    def parse(self) -> tuple[Step, ...]:
        self._list("", "")
        if self._here:
            raise CannotSplitError("a here-document has no end")
        return tuple(command.step() for command in self._commands)

    # ---- lists ---------------------------------------------------------------------------

    def _list(self, closing: str, joined: str) -> None:
        """Read commands up to *closing*, a bracket, or the end of the text."""
        self._depth += closing != ""
        if self._depth > MOST_DEPTH:
            raise CannotSplitError(f"its brackets are deeper than {MOST_DEPTH}")
        self._newlines()
        while True:
            self._command(joined)
            joined = self._operator(closing)
            if joined == closing:
                break
            self._newlines()
            if joined in (";", "&", "\n"):
                if self._ends(closing):
                    break
                joined = ";" if joined == "\n" else joined
        self._depth -= closing != ""

    def _operator(self, closing: str) -> str:
        self._blanks()
        found = _OPERATOR.match(self._text, self._at)
        if found is None:
            if self._at == len(self._text) and not closing:
                return ""
            raise self._unexpected()
        operator = found[0]
        if operator == ")" and not closing:
            raise self._unexpected()
        if operator == "\n":
            self._newline()
        else:
            self._at = found.end()
        if operator in ("|", ";", "&") and self._peek() in ("&", ";", "|"):
            raise self._unexpected()  # |&, ;;, ;& and the like are operators of some shells only
        if operator == "&" and self._peek() in (">", "<"):
            raise self._unexpected()  # &> redirects two streams, or ends a command and redirects nothing
        return operator

    def _ends(self, closing: str) -> bool:
        if not closing:
            return self._at == len(self._text)
        if self._peek() == closing:
            self._at += 1
            return True
        return False

    def _newlines(self) -> None:
        """Pass over blanks, comments and newlines."""
        self._blanks()
        while self._peek() == "\n":
            self._newline()
            self._blanks()

    def _blanks(self) -> None:
        """Pass over blanks, continued lines and a comment: a word may begin here."""
        if found := _BLANK.match(self._text, self._at):
            self._at = found.end()
        if self._peek() == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end

    def _newline(self) -> None:
        self._at += 1
        waiting, self._here = self._here, []
        for here in waiting:
            self._read_here(here)

    # ---- commands ------------------------------------------------------------------------

    def _command(self, joined: str) -> None:
        self._blanks()
        if self._peek() == "(":
            self._subshell(joined)
            return
        if len(self._commands) >= MOST_COMMANDS:
            raise CannotSplitError(f"it has more than {MOST_COMMANDS} commands")
        command = Command(joined, self._depth)
        self._commands.append(command)
        while self._item(command):
            pass
        if command.is_empty():
            raise self._unexpected()

    def _subshell(self, joined: str) -> None:
        if self._text.startswith("((", self._at):
            raise CannotSplitError("it has ((, which is arithmetic in some shells")
        self._at += 1
        self._list(")", joined)
        after = Command("", self._depth)
        while self._redirected(after):
            pass
        if not after.is_empty():
            self._commands.append(after)

    def _item(self, command: Command) -> bool:
        """Read a redirection, an assignment or a word of *command*; return False if there is none."""
        if self._redirected(command):
            return True
        letter = self._peek()
        if letter == "(":
            raise CannotSplitError("it defines a function or an array")
        if letter == "" or letter in _DELIMITERS:
            return False
        word = self._word()
        if command.words:
            command.words.append(word)
            return True
        if (word.bracket and word.raw != "[") or _APPEND.match(word.raw):
            raise CannotSplitError(f"it begins a command with {word.raw!r}, which is an array in some shells")
        if not word.quoted and word.raw in RESERVED:
            raise CannotSplitError(f"it has the compound command {word.raw!r}")
        (command.assignments if ASSIGNMENT.match(word.raw) else command.words).append(word)
        return True

    def _redirected(self, command: Command) -> bool:
        self._blanks()
        if re.compile(r"\d\d+[<>]").match(self._text, self._at):
            raise CannotSplitError("it redirects a stream above 9")
        found = _REDIRECTION.match(self._text, self._at)
        if found is None:
            return False
        self._at = found.end()
        number, operator = found[1], found[2]
        if operator in ("<&", ">&"):
            copied = _COPY.match(self._text, self._at)
            if copied is None:
                raise CannotSplitError(f"it has {operator} without a number")
            self._at = copied.end()
            command.copies.append(f"{number}{operator}{copied[0]}")
        elif operator in ("<<", "<<-"):
            self._expect_here(command, number, tabs=operator == "<<-")
        else:
            self._file(command, f"{number}{operator}")
        return True

    def _file(self, command: Command, operator: str) -> None:
        if found := _BLANK.match(self._text, self._at):
            self._at = found.end()
        letter = self._peek()
        if letter in ("", "#", "&", "|", *_DELIMITERS):
            raise self._unexpected()
        word = self._word()
        if word.known and word.text == _NULL:
            command.copies.append(f"{operator} {_NULL}")
        else:
            command.known &= word.known
            command.redirections.append(f"{operator} {quote(word.text) if word.known else word.raw}")

    # ---- here-documents ------------------------------------------------------------------

    def _expect_here(self, command: Command, number: str, *, tabs: bool) -> None:
        if self._substitutions:
            raise CannotSplitError("it has a here-document in a substitution")
        if found := _BLANK.match(self._text, self._at):
            self._at = found.end()
        found = _HERE.match(self._text, self._at)
        if found is None:
            raise CannotSplitError("the end of its here-document is not a plain word")
        self._at = found.end()
        single, double, plain = found.groups()
        self._here.append(Here(single or double or plain, plain is None, tabs, f"{number}<<", command))

    def _read_here(self, here: Here) -> None:
        lines: list[str] = []
        while self._at < len(self._text):
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            line = self._text[self._at : end]
            line = line.lstrip("\t") if here.tabs else line
            self._at = end + 1
            if line == here.delimiter:
                # The newline behind the delimiter ends the command, too.
                self._at = min(end + 1, len(self._text))
                self._keep_here(here, "".join(lines))
                return
            lines.append(f"{line}\n")
        raise CannotSplitError("a here-document has no end")

    def _keep_here(self, here: Here, text: str) -> None:
        if not here.quoted:
            if "\\" in text:
                raise CannotSplitError("it has a backslash in a here-document that is not quoted")
            here.command.known &= not {"$", "`"} & set(text)
        here.command.redirections.append(f"{here.prefix} {quote(text)}")

    # ---- words ---------------------------------------------------------------------------

    def _word(self) -> Word:
        begin = self._at
        pieces: list[str] = []
        known, quoted, bracket = True, False, False
        while (letter := self._peek()) and letter not in _DELIMITERS:
            match letter:
                case "'":
                    pieces.append(self._single())
                    quoted = True
                case '"':
                    text, all_known = self._double()
                    pieces.append(text)
                    known, quoted = known and all_known, True
                case "\\":
                    pieces.append(self._escaped())
                    quoted = True
                case "$":
                    text = self._dollar(within=False)
                    pieces.append(text)
                    known &= text == "$"
                case "`":
                    self._backquotes(within=False)
                    known = False
                case _:
                    before = self._text[self._at - 1] if self._at > begin else "="
                    known &= letter not in "*?[" and not (letter == "~" and before in "=:")
                    bracket |= letter == "["
                    pieces.append(self._plain(letter))
        raw = self._text[begin : self._at]
        return Word("".join(pieces), known or raw == "[", quoted, raw, bracket)

    def _plain(self, letter: str) -> str:
        if letter in "{}":
            raise CannotSplitError(f"it has {letter}, which some shells expand")
        if not letter.isascii() and not letter.isalnum():
            raise CannotSplitError(f"it has the character {letter!r} outside of quotes")
        self._at += 1
        return letter

    def _single(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise CannotSplitError("a single quote is not closed")
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double(self) -> tuple[str, bool]:
        self._at += 1
        pieces: list[str] = []
        known = True
        while (letter := self._peek()) != '"':
            match letter:
                case "":
                    raise CannotSplitError("a double quote is not closed")
                case "\\" if self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n", ""):
                    pieces.append(self._escaped())
                case "$":
                    text = self._dollar(within=True)
                    pieces.append(text)
                    known &= text == "$"
                case "`":
                    self._backquotes(within=True)
                    known = False
                case _:
                    pieces.append(letter)
                    self._at += 1
        self._at += 1
        return "".join(pieces), known

    def _escaped(self) -> str:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in ("", "\n") or not (letter.isascii() or letter.isalnum()):
            raise CannotSplitError(
                "it continues a line within a word" if letter == "\n" else "it has a stray backslash"
            )
        self._at += 2
        return letter

    # ---- expansions ----------------------------------------------------------------------

    def _dollar(self, *, within: bool) -> str:
        """Pass over an expansion and return "", or ``$`` if it stands for itself; *within* double quotes."""
        self._at += 1
        letter = self._peek()
        if letter == "(":
            if self._text.startswith("((", self._at):
                raise CannotSplitError("it has arithmetic")
            self._at += 1
            self._substitution()
            return ""
        for form in (_VARIABLE, _BRACED):
            if found := form.match(self._text, self._at):
                self._at = found.end()
                return ""
        if (within and letter in _LITERAL_DOLLAR) or (not within and letter in ("", *" \t\n;&|)")):
            return "$"
        raise CannotSplitError(f"it has the expansion ${letter}")

    def _substitution(self) -> None:
        if self._here:
            raise CannotSplitError("it has a substitution behind a here-document")
        self._substitutions += 1
        self._list(")", "$(")
        self._substitutions -= 1

    def _backquotes(self, *, within: bool) -> None:
        end = self._text.find("`", self._at + 1)
        inner = self._text[self._at + 1 : end]
        if end < 0 or "\\" in inner or (within and ("'" in inner or '"' in inner)):
            raise CannotSplitError("it has backquotes with quotes or backslashes in them; $( ) is clearer")
        below = _Parser(inner)
        below._depth, below._substitutions = self._depth + 1, 1
        below._list("", "`")
        self._commands += below._commands
        self._at = end + 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _unexpected(self) -> CannotSplitError:
        rest = self._text[self._at : self._at + 10]
        return CannotSplitError(f"it has an unexpected {rest!r}" if rest else "it ends too early")
