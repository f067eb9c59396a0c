"""The command `completion`: what bash needs to complete the other commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer
from typer.main import get_command

from emulation.backends.registry import backends
from emulation.errors import ScenarioError
from emulation.workloads.registry import workload_names
from nodeapp.installation import PROGRAM
from nodeapp.pubsub.registry import PROTOCOLS
from testbed.commands import COMMANDS
from topologies.catalog import all_parameters, topology_names

_SCRIPT: Final = """\
_run_testbed_sh() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" completion --at "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null))
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -F _run_testbed_sh NAME
"""
SCENARIOS: Final = ("run", "cli", "sweep", "agree", "export-trace", "export-workload")
"""Commands whose arguments are a topology and protocols."""


def completion(
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    at: Annotated[int, typer.Option("--at", hidden=True)] = 0,
) -> None:
    """Print what makes bash complete commands, topologies, protocols and --set keys.

    Example: eval "$(testbed completion)", in a checkout eval "$(./run_testbed.sh completion)"; in
    zsh after: autoload -U bashcompinit; bashcompinit
    """
    if words:
        print("\n".join(completions(words[:at], words[at] if at < len(words) else "")))
    else:
        print(_SCRIPT.replace("NAME", PROGRAM), end="")


def completions(before: Sequence[str], begun: str) -> list[str]:
    """Return how a word may go on after the words `before`, of which the first is the program."""
    if len(before) <= 1:
        return _beginning(COMMANDS, begun)
    command, *given = before[1:]
    if command not in COMMANDS:
        return []
    arguments = _arguments(given)
    last = given[-1] if given else ""
    if begun.startswith("-"):
        return _beginning(_options(command), begun)
    if last == "--backend":
        return _beginning(backends(), begun)
    if last == "--workload":
        return _beginning(workload_names(), begun)
    if last == "--set":
        return _beginning([f"{key}=" for key in _keys(arguments)], begun)
    if last.startswith("--") or command not in SCENARIOS:
        return _beginning([*topology_names(), *PROTOCOLS], begun) if command == "list" else []
    return _beginning(PROTOCOLS if arguments else topology_names(), begun)


def _beginning(names: Iterable[str], text: str) -> list[str]:
    return [name for name in names if name.startswith(text)]


def _arguments(given: Sequence[str]) -> list[str]:
    """Return the words that are neither options nor their values."""
    return [
        word
        for previous, word in zip(["", *given], given, strict=False)
        if not word.startswith("-") and not previous.startswith("--")
    ]


def _keys(arguments: Sequence[str]) -> list[str]:
    try:
        topology = arguments[0] if arguments else ""
        protocol = arguments[1] if len(arguments) > 1 else next(iter(PROTOCOLS))
        return list(all_parameters(topology, protocol))
    except ScenarioError:
        return []


def _options(command: str) -> list[str]:
    loaded = COMMANDS[command].load()
    if isinstance(loaded, typer.Typer):
        return []
    alone = typer.Typer(add_completion=False)
    alone.command()(loaded)
    parameters = get_command(alone).params
    return [name for each in parameters for name in each.opts if name.startswith("--")]
