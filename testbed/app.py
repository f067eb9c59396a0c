"""The command line: `./run_testbed.sh COMMAND` in a checkout, `testbed COMMAND` installed."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer._click.core import Command
from typer._click.shell_completion import CompletionItem
from typer.core import TyperGroup
from typer.main import get_command, get_group

from emulation.errors import first_problem
from emulation.scenario.provenance import version
from nodeapp.installation import PROGRAM
from nodeapp.parameters import suggestion
from testbed.commands import COMMANDS
from testbed.completing import ASKS
from testbed.run import DEMO, run


class LazyGroup(TyperGroup):
    """A group whose commands are loaded when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None if there is none of that name."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        loaded = command.load()
        if isinstance(loaded, typer.Typer):
            group = get_group(loaded)
            group.name = cmd_name
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        alone.command(cmd_name, context_settings=settings if command.passes_on else None)(loaded)
        return get_command(alone)

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return the command that a line names.  Raises UsageError, which suggests others."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no command {args[0]!r}{suggestion(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command.  Raises UsageError for values of a wrong type, in our words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            # Typer checks them by pydantic, and would show its "Input should be".
            if isinstance(error.__cause__, ValidationError):
                error.message = first_problem(error.__cause__)
            raise

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return how a command or option may go on, without loading the commands."""
        names = [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]
        return [*names, *Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and what each does, without loading them."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _short(name, width)) for name in COMMANDS])


def _short(name: str, width: int) -> str:
    """Return what a command does, cut off at a word."""
    text = COMMANDS[name].summary().rstrip(".")
    return text if len(text) <= width else text[: width - 2].rpartition(" ")[0] + "..."


app = typer.Typer(
    name=PROGRAM,
    cls=LazyGroup,
    help="Publish/subscribe over emulated wireless networks: run, capture, analyse.",
    epilog="Without a command: sets up on first use, runs the demo "
    f"({DEMO[1]} on {DEMO[0]}) and writes a report.",
    rich_markup_mode=None,
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", help="print the version and the commit, and exit")
    ] = False,
) -> None:
    """Run the demo if no command is given."""
    if show_version:
        print(f"{PROGRAM} {version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        run(context, *DEMO)


def main() -> None:
    """Run the command line, as `testbed.interruption.guarded` has it run."""
    if ASKS in os.environ:
        from testbed.completion import enable  # asked for by shells only

        enable()
    app(prog_name=PROGRAM, complete_var=ASKS)
