"""Run commands in a virtual machine, whose kernel has what the host's may lack.

The commands `vm build`, `vm boot`, `vm run`, `vm cli` and `vm test`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Self, get_args

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperCommand
from typer.exceptions import TyperException
from typer.main import get_command

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.vm import build as images
from emulation.vm import qemu
from emulation.vm.inputs import inputs_of
from emulation.vm.preloaded import FILES
from emulation.vm.probe import Choice
from emulation.vm.run import MachineOptions, run_in_vm, run_waiting, testbed
from emulation.vm.staging import Staging, staging
from nodeapp.installation import PROGRAM
from testbed import completing
from testbed.commands import COMMANDS
from testbed.display import StageDisplay
from testbed.options import (
    RUNS,
    USAGE,
    AnalyseOption,
    RunsOption,
    console,
    end_interrupted,
    fail,
    scenario_again,
    scenario_of,
    settings_of,
)

app = typer.Typer(
    help=(__doc__ or "").partition("\n\n")[0], rich_markup_mode=None, no_args_is_help=True
)

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
ACCELERATORS: Final[tuple[Choice, ...]] = get_args(Choice)
CLOCKS = ("real", "virtual")
ON_THE_HOST = frozenset(
    {"analyze", "sweep", "reproduce", "agree", "test", "vm"}
    | {"artifact", "export-trace", "export-workload"}
)
"""Commands that need what the guest lacks: Spark, the tests' tools, QEMU, your disk."""
RUNNERS = frozenset({"run", "cli", "mn"})
"""Commands that leave a run folder, which is analysed here."""
OF_ANALYSIS = ("--strict", "--json", "--quiet")


class GuestCommand(TyperCommand):
    """Takes the words of a command that runs in the machine."""

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return how a word may go on: an option of this command, or what the other one takes."""
        words = list(ctx.args)
        if self.name != "run" or not words or words[0] not in COMMANDS:
            words.insert(0, str(self.name))
        from testbed.completion import completions  # only when a shell asks

        own = super().shell_complete(ctx, incomplete)
        items = completions(ctx.find_root().command, words, incomplete)
        return list({item.value: item for item in (*own, *items)}.values())


AccelOption = Annotated[
    str,
    typer.Option(
        "--accel",
        help="auto: KVM if it really boots a guest, otherwise tcg",
        autocompletion=lambda: list(ACCELERATORS),
    ),
]
MemoryOption = Annotated[int, typer.Option("--memory", min=512, help="MiB of the machine")]
CpusOption = Annotated[int, typer.Option("--cpus", min=1, max=64, help="processors of the machine")]
LimitOption = Annotated[
    float | None,
    typer.Option("--time-limit", min=1.0, help="seconds after which the machine is ended"),
]
ClockOption = Annotated[
    str,
    typer.Option(
        "--clock",
        help="virtual: it counts instructions, so a run is not late and is the same each time",
        autocompletion=lambda: list(CLOCKS),
    ),
]
ShareOption = Annotated[
    list[Path] | None,
    typer.Option("--share", metavar="DIR", help="a folder that the guest may read, at its path"),
]


@app.command()
def build(
    extra: Annotated[
        Path | None,
        typer.Option("--extra", metavar="DIR", help="files to add to the image, as under /"),
    ] = None,
    provision: Annotated[
        Path | None,
        typer.Option("--provision", metavar="SCRIPT", help="runs inside the image as root"),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME,...",
            help="middlewares and routing, as for setup",
            autocompletion=completing.several_systems,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="build even if the image exists")] = False,
) -> None:
    """Build the image of the virtual machine; later commands use it.

    What --extra and --provision add stays until the next build; --with adds to what is there.

    Example: vm build --provision install-batman.sh
    Example: vm build --with mqtt,babel
    """
    names = [name.strip() for text in systems or () for name in text.split(",")]
    if not all(names):
        known = ", ".join(completing.several_systems(""))
        fail(f"--with takes names with commas between: {known}", USAGE)
    with _errors(), Interrupts() as interrupts, Stages() as stages:
        inputs = inputs_of(extra, provision, systems=names)
        if names:
            inputs = images.extended(inputs, images.cache_folder())
        image = images.ensure_image(stages, inputs=inputs, force=force, interrupts=interrupts)
    facts = json.loads((image.path / "image.json").read_text(encoding="utf-8"))
    having = f", with {', '.join(inputs.systems)}" if inputs.systems else ""
    console.say(
        f"image: {image.path} ({facts['bytes'] >> 20} MiB, Linux {facts['kernel']}, "
        f"built in {facts['build_seconds']:.0f} s{having})"
    )


@app.command(context_settings=PASS_ON)
def boot(
    context: typer.Context,
    accel: AccelOption = "auto",
    memory: MemoryOption = qemu.MEMORY,
    cpus: CpusOption = qemu.PROCESSORS,
    time_limit: LimitOption = None,
    share: ShareOption = None,
    runs: RunsOption = RUNS,
) -> None:
    """Boot the virtual machine with a shell, or run any program in it; Ctrl-] ends it.

    Example: vm boot -- iw list
    """
    options = _options(accel, memory, cpus, time_limit, share)
    command = list(context.args) or ["bash", "-i"]
    code, _ = _in_guest(command, runs, options, terminal=_at_terminal(needed=not context.args))
    raise typer.Exit(code)


@app.command(cls=GuestCommand, context_settings=PASS_ON)
def run(
    context: typer.Context,
    accel: AccelOption = "auto",
    memory: MemoryOption = qemu.MEMORY,
    cpus: CpusOption = qemu.PROCESSORS,
    time_limit: LimitOption = None,
    share: ShareOption = None,
    clock: ClockOption = "real",
    runs: RunsOption = RUNS,
    analyze: AnalyseOption = True,
) -> None:
    """Run a scenario in the virtual machine and analyse it here; or any other command there.

    Example: vm run roaming_field broker-gpsr --backend tap --nodes 10
    Example: vm run --clock virtual --share ~/scripts mn ~/scripts/handover.py
    Example: vm run -- doctor
    """
    words = list(context.args)
    if not words:
        fail(f"what to run? {PROGRAM} vm run TOPOLOGY PROTOCOL, or a command", USAGE)
    if words[0] not in COMMANDS:
        words.insert(0, "run")
    if words[0] in ON_THE_HOST or "--no-captures" in words:
        what = words[0] if words[0] in ON_THE_HOST else "--no-captures"
        fail(f"{what} does not work in the virtual machine: use it without `vm run`", USAGE)
    options = _options(accel, memory, cpus, time_limit, share, clock)
    _scenario(words, runs, options, analyze, terminal=not options.waits and _at_terminal())


@app.command(cls=GuestCommand, context_settings=PASS_ON)
def cli(
    context: typer.Context,
    accel: AccelOption = "auto",
    memory: MemoryOption = qemu.MEMORY,
    cpus: CpusOption = qemu.PROCESSORS,
    time_limit: LimitOption = None,
    share: ShareOption = None,
    runs: RunsOption = RUNS,
    analyze: AnalyseOption = True,
) -> None:
    """Open the Mininet CLI of a scenario in the virtual machine; Ctrl-] ends it.

    Example: vm cli roaming_field broker-gpsr --nodes 10
    """
    options = _options(accel, memory, cpus, time_limit, share)
    terminal = _at_terminal(needed=True)
    words = ["cli", *context.args]
    _scenario(words, runs, options, analyze, terminal=terminal)


@app.command(name="test")
def smoke(
    accel: AccelOption = "auto",
    memory: MemoryOption = qemu.MEMORY,
    cpus: CpusOption = qemu.PROCESSORS,
    time_limit: LimitOption = 600.0,
    clock: ClockOption = "real",
) -> None:
    """Try the virtual machine: its modules load, and a scenario runs in it."""
    options = _options(accel, memory, cpus, time_limit, None, clock)
    command = ["python3", "-m", "emulation.vm.smoke"]
    if options.waits:
        with tempfile.TemporaryDirectory() as runs:
            code, _ = _in_guest(command, Path(runs), options, terminal=False)
    else:
        code, _ = _in_guest(command, None, options, terminal=False)
    raise typer.Exit(code)


class Stages(StageDisplay):
    """Shows what is being done, with the time it takes, from the first stage on."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        return self

    def stage(self, text: str) -> None:
        """Show what is being done now."""
        super().stage(text)
        self._progress.start()

    def hide(self) -> None:
        """Leave the terminal to the command, which runs now."""
        self._progress.stop()


def _scenario(
    words: Sequence[str], runs: Path, options: MachineOptions, analyze: bool, terminal: bool
) -> None:
    if words[0] in {"run", "cli"}:
        if "--live" in words:
            fail(
                "--live is a page inside the virtual machine, which nobody here can open: leave it "
                "out, the report has a replay of the run",
                USAGE,
            )
        if extra := [word for word in OF_ANALYSIS if word in words]:
            fail(f"{extra[0]} is for the analysis, which runs here: analyze {extra[0]} RUN", USAGE)
        _check_scenario(words)
    here = ["--no-analyze", "--runs", str(FILES) if options.waits else str(runs.absolute())]
    if words[0] == "mn":  # what follows a script's name is the script's
        words = [words[0], *here, *words[1:]]
    elif words[0] in RUNNERS:
        words = [*words, *here]
    code, folders = _in_guest(testbed(*words), runs, options, terminal=terminal)
    for folder in folders:
        RunFolder(folder).give_to_caller()
        if options.waits:  # there each run of a scenario has the name of the first
            console.say(f"run folder here: {folder}")
    if code == 0 and analyze and words[0] in RUNNERS and folders:
        try:
            from testbed.analyze import analyze as report  # Spark, which takes a second to load

            report([str(folder) for folder in folders])
        finally:
            for folder in folders:
                RunFolder(folder).give_to_caller()
    raise typer.Exit(code)


def _check_scenario(words: Sequence[str]) -> None:
    """End with what is wrong with a scenario, before a machine boots for it.

    Files that are not on this machine are looked at in the guest, where their paths may differ.
    """
    if not all(Path(word.partition("file:")[2]).exists() for word in words if "file:" in word):
        return
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(words[0])(COMMANDS[words[0]].load())
    command = get_command(alone)
    try:
        params = command.make_context(words[0], list(words[1:])).params
    except TyperException as error:
        says = getattr(error, "format_message", None)
        fail(says() if says is not None else str(error), USAGE)
    if (again := params.get("again")) is not None:
        if again.exists():
            scenario_again(again)
        return
    values = settings_of(*(params[key] for key in ("settings", "nodes", "workload", "fault")))
    scenario_of(params["topology"], params["protocol"], values, params["duration"], params["seed"])


def _in_guest(
    command: Sequence[str], runs: Path | None, options: MachineOptions, terminal: bool
) -> tuple[int, list[Path]]:
    """Run a command in a machine; return its exit code and the run folders it has left."""
    stage: Staging | None = None
    with _errors(), Interrupts() as interrupts, Stages() as stages:
        run = partial(
            run_in_vm,
            command,
            observer=stages,
            options=options,
            terminal=terminal,
            interrupts=interrupts,
        )
        try:
            if runs is None:
                return run(), []
            with staging(runs.absolute()) as stage:
                for folder in stage.recovered:
                    console.say(f"kept the run of a killed machine: {folder}")
                if options.waits:
                    code = run_waiting(
                        command,
                        stage.path,
                        observer=stages,
                        shown=stage.runs,
                        options=options,
                        interrupts=interrupts,
                    )
                else:
                    code = run(share_rw=stage.path, share_target=stage.runs)
            return code, stage.folders
        except KeyboardInterrupt:
            stages.hide()
            kept = "".join(f"; kept: {folder}" for folder in (stage.folders if stage else ()))
            end_interrupted(f"interrupted: the virtual machine was ended{kept}")
        except VmError:
            stages.hide()
            for folder in stage.folders if stage else ():
                console.say(f"kept: {folder}")
            raise


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except VmError as error:
        fail(str(error))
    except KeyboardInterrupt:
        end_interrupted("interrupted")
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or ''}")


def _options(
    accel: str,
    memory: int,
    cpus: int,
    time_limit: float | None,
    share: list[Path] | None,
    clock: str = CLOCKS[0],
) -> MachineOptions:
    accelerator = next((name for name in ACCELERATORS if name == accel), None)
    if accelerator is None:
        fail(f"--accel takes one of {', '.join(ACCELERATORS)}, not {accel!r}", USAGE)
    if clock not in CLOCKS:
        fail(f"--clock takes one of {', '.join(CLOCKS)}, not {clock!r}", USAGE)
    waits = clock == "virtual"
    if waits and accel == "kvm":
        fail("--clock virtual counts instructions, which KVM cannot: leave out --accel kvm", USAGE)
    if waits and cpus not in {1, qemu.PROCESSORS}:
        fail("--clock virtual has one processor: leave out --cpus", USAGE)
    shares = tuple(share or ())
    return MachineOptions(accelerator, memory, cpus, time_limit, shares, waits)


def _at_terminal(needed: bool = False) -> bool:
    both = sys.stdin.isatty() and sys.stdout.isatty()
    if needed and not both:
        fail("needs a terminal; to run a command without one: vm boot -- COMMAND", USAGE)
    return both
