"""``pluggent completion``: the script that makes a shell complete words. The answers are completion/words.py's.

Not argcomplete, because it builds the parser of a command at each key press, and the parsers import the
host; and not shtab, whose scripts know no session, plugin or plugin's command. The scripts do next to
nothing with an answer: they never evaluate it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path
from types import MappingProxyType

from pluggent_hookspecs.errors import ConfigError

from pluggent_cli import exits
from pluggent_cli.main import COMPLETE
from pluggent_cli.parsing import Parser, action, command_parser, examples
from pluggent_cli.table import SHELLS
from pluggent_cli.terminal.console import Console

# bash 3.2 (macOS) has neither mapfile nor compopt. Nothing goes through compgen -W, which expands.
_BASH = """\
_pluggent() {
    local line kind=""
    COMPREPLY=()
    while IFS= read -r line; do
        if [ -z "$kind" ]; then
            kind=$line
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done < <(@PROGRAM@ @COMPLETE@ bash "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$2" 2>/dev/null </dev/null)
    local paths=""
    case $kind in
        files) paths=-f ;;
        folders) paths=-d ;;
    esac
    if [ -n "$paths" ]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen "$paths" -- "$2")
    fi
}
complete -F _pluggent pluggent
"""
_ZSH = """\
#compdef pluggent
_pluggent() {
    local line kind=""
    local -a values shown
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            values+=("${line%%$'\\t'*}")
            if [[ $line == *$'\\t'* ]]; then
                shown+=("${line%%$'\\t'*}  -- ${line#*$'\\t'}")
            else
                shown+=("$line")
            fi
        fi
    done < <(@PROGRAM@ @COMPLETE@ zsh "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null </dev/null)
    [[ $PREFIX == --*=* ]] && compset -P '--[a-z-]##='
    case $kind in
        files) _files ;;
        folders) _files -/ ;;
        *) (( $#values )) && compadd -l -d shown -a values ;;
    esac
}
if [[ $funcstack[1] == _pluggent ]]; then
    _pluggent "$@"
else
    compdef _pluggent pluggent
fi
"""
_FISH = """\
function __pluggent_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc)
    set -l answer (@PROGRAM@ @COMPLETE@ fish $words[2..-1] "$current" 2>/dev/null </dev/null)
    set -l option (string match -r -- '^--[a-z-]+=' "$current")
    switch "$answer[1]"
        case files
            __fish_complete_path (string replace -r -- '^--[a-z-]+=' '' "$current") | string replace -r -- '^' "$option"
        case folders
            __fish_complete_directories (string replace -r -- '^--[a-z-]+=' '' "$current") \\
                | string replace -r -- '^' "$option"
        case '*'
            test (count $answer) -gt 1; and printf '%s\\n' $answer[2..-1]
    end
end
complete -c pluggent -f -a '(__pluggent_complete)'
"""
_SCRIPTS = MappingProxyType({"bash": _BASH, "zsh": _ZSH, "fish": _FISH})


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "completion",
        "[OPTIONS] bash | zsh | fish",
        "Print a script that lets a shell complete commands, options, and the names of sessions, plugins and\n"
        "tools. Pressing Tab loads no plugin and costs about what pluggent --version does.",
        examples(
            "pluggent completion bash > ~/.local/share/bash-completion/completions/pluggent",
            'eval "$(pluggent completion bash)"               for this shell only, or in ~/.bashrc',
            "pluggent completion zsh > ~/.zfunc/_pluggent      with fpath+=(~/.zfunc) before compinit in ~/.zshrc",
            'eval "$(pluggent completion zsh)"                after compinit, in ~/.zshrc',
            "pluggent completion fish > ~/.config/fish/completions/pluggent.fish",
        )
        + "\n\nTools are completed once pluggent tools has listed them. Make the script anew if pluggent moves.",
    )
    made.add_argument("words", metavar="SHELL", nargs="*", help=f"one of {', '.join(SHELLS)}")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    if not options.words:
        near = Path(os.environ.get("SHELL", "")).name
        yours = f"; yours is {near}" if near in SHELLS else ""
        raise ConfigError("pluggent completion", [f"needs a shell: {', '.join(SHELLS)}{yours}"])
    shell, rest = action("completion", options.words, SHELLS)
    if rest:
        raise ConfigError("pluggent completion", [f"takes one shell, got {len(options.words)}"])
    script = _SCRIPTS[shell].replace("@PROGRAM@", program()).replace("@COMPLETE@", COMPLETE)
    if console.json:
        console.document({"shell": shell, "script": script})
    else:
        console.write(script)
    return exits.OK


def program() -> str:
    """Return how this very command is called, as a shell reads it: what was typed in the line is never run."""
    own = Path(sys.argv[0]).resolve()
    found = shutil.which("pluggent")
    if found and Path(found).resolve() == own:
        return "command pluggent"
    if own.name in ("pluggent", "pluggent-cli"):
        return shlex.quote(str(own))
    return f"{shlex.quote(sys.executable)} -P -m pluggent_cli"
