"""The command line itself, and how a function becomes one of its commands."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from inspect import Signature, signature
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from .settings import Settings
from .terminal import Code, Output, run_guarded

# click's UsageError, which newer versions of typer carry inside themselves.
_UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """The group of commands; with `--json` a wrong command line is told in JSON, too."""

    def main(self, args: Sequence[str] | None = None, **options: Any) -> Any:  # type: ignore[override]  # the arguments this package uses
        """Run the command line and leave the process."""
        arguments = sys.argv[1:] if args is None else list(args)
        if "--json" not in arguments or not options.pop("standalone_mode", True):
            return super().main(args=args, **options)
        try:
            code = super().main(args=arguments, standalone_mode=False, **options)
        except _UsageError as error:
            Output(json=True).write_result({"status": "error", "error": error.format_message()})
            code = Code.USAGE
        sys.exit(code)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Agent loops that plan, work, check the result and can be resumed.",
    epilog="Exit codes: 0 complete, 1 a replay differs, 2 wrong use, 3 not finished, 4 failed, "
    "5 waiting for a human, 130 paused by Ctrl-C.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"loopwright {version('loopwright')}")
        raise typer.Exit


@app.callback()
def loopwright(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="And leave.")
    ] = False,
) -> None:
    """Take what stands before the command."""


Form = TypeVar("Form", bound=Callable[..., int | None])


def _load(named: str) -> Any:
    module, _, function = named.partition(".")
    return getattr(import_module(f".{module}", __package__), function)


def make_command(
    *options: str, runs: str = "", within: typer.Typer = app
) -> Callable[[Form], Form]:
    """Make a command of a function, which takes its own arguments and these of the settings.

    It does the work itself, with settings and output before its arguments, or only declares them:
    then `runs` names who does it, as `module.function` of this room, imported when it is needed.
    """

    def register(form: Form) -> Form:
        def command(**own: Any) -> None:
            chosen = {name: own.pop(name) for name in options}
            output = Output(json=chosen.get("json", False))

            def run() -> int:
                body: Any = _load(runs) if runs else form
                return int(body(Settings(**chosen), output, **own))

            raise typer.Exit(run_guarded(output, run))

        own = list(signature(form).parameters.values())[0 if runs else 2 :]
        shared = [signature(Settings).parameters[name] for name in options]
        command.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]  # typer reads it
        within.command(form.__name__.rstrip("_"), help=form.__doc__)(command)
        return form

    return register
