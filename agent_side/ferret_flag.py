"""Adds ``--bridge URL`` to ``chimera ferret serve``, in the Python that has chimera-run.

A copy of this file lies there beside a ``.pth`` line that calls ``watch`` at every start of that
Python: it imports nothing that costs, and does nothing before ``chimera.ferret.cli`` is imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


NAME = "chimera.ferret.cli"
FLAG = "--bridge"
PRESETS = {"yolo": "full"}  # ferret's names for presets that have another one here


class Unset(str):
    """A default that nobody wrote on the command line."""

    __slots__ = ()


class Watch:
    """Sees the module's import, once."""

    def __init__(self, program: list[str]) -> None:
        """Take the command that starts chimera-bridge."""
        self.program = program

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: object = None
    ) -> ModuleSpec | None:
        """Give the module's own spec, which adds the flag when it is run."""
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                add(module, self.program)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def watch(program: list[str]) -> None:
    """Wait for the import."""
    sys.meta_path.insert(0, Watch(program))


def add(cli: Any, program: list[str]) -> None:
    """Add the flag to ferret's command line; one that is not as known is left as it is."""
    try:
        arguments, commands = cli.add_arguments, cli._SUBCOMMAND_DISPATCH  # noqa: SLF001
        serve = commands["serve"]
    except (AttributeError, LookupError, TypeError):
        refuse_if_given()
        return

    def add_arguments(parser: Any) -> None:
        arguments(parser)
        parser.add_argument(FLAG, metavar="URL", help="serve: attach to a relay (chimera-bridge).")
        for name in ("model", "approval", "sandbox"):
            parser.set_defaults(**{name: Unset(parser.get_default(name))})

    def dispatch(args: Any) -> int:
        if not getattr(args, "bridge", None):
            return int(serve(args))
        return replace(words(args, program), surroundings(args))

    cli.add_arguments, commands["serve"] = add_arguments, dispatch


def refuse_if_given() -> None:
    """End where the flag would be taken for another: it is an abbreviation of --bridge-token."""
    given = sys.argv[1:] or getattr(sys, "orig_argv", [])
    if any(word == FLAG or word.startswith(f"{FLAG}=") for word in given):
        raise SystemExit(
            f"chimera-bridge: {FLAG} does not fit this chimera-run, which is not as known; "
            "run `chimera-bridge ferret serve` instead"
        )


def words(args: Any, program: list[str]) -> list[str]:
    """Give the command line of chimera-bridge that means the same."""
    refused = [name for name in ("allowed_tools", "tls_cert", "tls_key") if getattr(args, name, "")]
    if refused:
        told = ", ".join("--" + name.replace("_", "-") for name in refused)
        raise SystemExit(f"chimera-bridge: {FLAG} does not go together with {told}")
    line = [*program, "ferret", "serve", FLAG, args.bridge]
    preset = preset_of(args)
    if preset:
        line += ["--approval", PRESETS.get(preset, preset)]
    if not isinstance(args.sandbox, Unset):
        line += ["--sandbox", args.sandbox]
    if getattr(args, "cwd", None):
        line += ["--cwd", args.cwd]
    if getattr(args, "http", False):
        line += ["--http", f"{args.host or '127.0.0.1'}:{args.port or 5173}"]
    return line


def preset_of(args: Any) -> str | None:
    """Give the preset that was asked for, by the name that wins in ferret; none: None."""
    if getattr(args, "permission_mode", None):
        return str(args.permission_mode)
    if getattr(args, "yolo", False):
        return "full"
    if not isinstance(args.approval, Unset):
        return str(args.approval)
    return "auto" if getattr(args, "full_auto", False) else None


def surroundings(args: Any) -> dict[str, str]:
    """Give the environment: the engine of this Python, and no secret on a command line."""
    import os

    own = {
        "CHIMERA_BRIDGE_FERRET_PYTHON": sys.executable,
        "FERRET_MODEL": None if isinstance(args.model, Unset) else args.model,
        "FERRET_BRIDGE_TOKEN": getattr(args, "bridge_token", None),
        "FERRET_SERVER_TOKEN": getattr(args, "auth_token", None),
    }
    return {**os.environ, **{name: value for name, value in own.items() if value}}


def replace(line: list[str], environ: dict[str, str]) -> int:
    """Become another program; where that cannot be, run it and give its exit code."""
    import os

    sys.stdout.flush()
    if os.name == "posix":
        os.execve(line[0], line, environ)  # noqa: S606  our own program
    import subprocess

    return subprocess.call(line, env=environ)  # noqa: S603  the same
