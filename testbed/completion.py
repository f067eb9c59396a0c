"""The command `completion`: what bash, zsh and fish need to complete the other commands.

Typer answers a shell that asks how a line may go on: parameters name their completers
(`testbed.completing`).  Here are the scripts that ask, which call the program as it is typed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer import _completion_classes as of_typer
from typer._click.shell_completion import CompletionItem, ShellComplete, add_completion_class
from typer._completion_shared import _get_shell_name as detected_shell

from nodeapp.installation import COMMAND, PROGRAM
from testbed.completing import ASKS, SETS
from testbed.options import USAGE, fail

_BASH: Final = """\
%(function)s() {
    local IFS=$'\\n'
    COMPREPLY=($(env _TYPER_COMPLETE_ARGS="${COMP_LINE:0:COMP_POINT}" \\
        %(variable)s=complete_bash "${1/#\\~/$HOME}" 2>/dev/null))
    [[ ${COMPREPLY[0]-} == *[=:] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F %(function)s %(program)s
"""
_ZSH: Final = """\
#compdef %(program)s
%(function)s() {
    local -a nospace=(-S '')
    eval "$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" \\
        %(variable)s=complete_zsh "${${(Q)words[1]}/#\\~/$HOME}" 2>/dev/null)"
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef %(function)s %(program)s
"""
_FISH: Final = """\
function %(function)s
    set -l words (commandline -opc)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -l known (env _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) \\
        _TYPER_COMPLETE_FISH_ACTION=get-args %(variable)s=complete_fish $program 2>/dev/null)
    if test -n "$known"
        printf '%%s\\n' $known
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command %(program)s --no-files --arguments "(%(function)s)"
"""


class _OfNames(ShellComplete):
    """Leaves files to the shell, which knows them better."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return how a word may go on after others."""
        items = super().get_completions(args, incomplete)
        return [item for item in items if item.type == "plain"]

    def source_vars(self) -> dict[str, Any]:
        """Return the values that the script is filled with."""
        function = "_" + "".join(character if character.isalnum() else "_" for character in PROGRAM)
        return {"function": function, "variable": ASKS, "program": PROGRAM}


class _Zsh(_OfNames, of_typer.ZshComplete):
    source_template = _ZSH

    def complete(self) -> str:
        """Return what zsh evaluates; after the key of a setting no space follows."""
        args, incomplete = self.get_completion_args()
        values = [item.value for item in self.get_completions(args, incomplete)]
        open_end = bool(values) and all(value.endswith(SETS) for value in values)
        text = super().complete()
        return text.replace("_arguments", "_arguments -O nospace", 1) if open_end else text


class _Bash(_Zsh):
    """Reads the line as zsh has it: bash's own words are cut at '=' and ':'."""

    name = "bash"
    source_template = _BASH

    def complete(self) -> str:
        """Return the words, one a line."""
        args, incomplete = self.get_completion_args()
        return "\n".join(item.value for item in self.get_completions(args, incomplete))


class _Fish(_OfNames, of_typer.FishComplete):
    source_template = _FISH


SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def enable() -> None:
    """Let Typer answer these shells."""
    for name, completer in SHELLS.items():
        add_completion_class(completer, name)


def completions(command: Any, words: list[str], incomplete: str) -> list[CompletionItem]:
    """Return how a word may go on after others, which name a command of `command` first."""
    return _Bash(command, {}, PROGRAM, ASKS).get_completions(words, incomplete)


def completion(
    context: typer.Context,
    shell: Annotated[
        str | None,
        typer.Argument(
            help="bash, zsh or fish; by default the calling shell",
            metavar="SHELL",
            autocompletion=lambda: list(SHELLS),
        ),
    ] = None,
) -> None:
    """Print the script with which bash, zsh or fish complete commands, names and --set keys.

    Example: eval "$(testbed completion)", in a checkout eval "$(./run_testbed.sh completion)"; in
    fish: testbed completion fish | source
    """
    if shell is None:
        detected = detected_shell()
        shell = detected if detected in SHELLS else "bash"
    if shell not in SHELLS:
        names = ", ".join(SHELLS)
        fail(f"no completion for {shell!r}: use {COMMAND} completion with {names}", USAGE)
    command = context.find_root().command
    print(SHELLS[shell](command, {}, PROGRAM, ASKS).source(), end="")
