"""How much harm what is asked may do; simple rules, so that people can foresee it.

Low: it only reads, in the workspace. High: it deletes, rises in rights, publishes, sends data away,
touches secrets, writes outside the workspace, or cannot be read. Medium: all the rest.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, TypeAlias

from agent_side import shell
from agent_side.shell import SHELLS, Call, Script, Word
from bridge.protocol import jsonrpc
from bridge.protocol.jsonrpc import Payload

Risk: TypeAlias = Literal["low", "medium", "high"]
ORDER: tuple[Risk, ...] = ("low", "medium", "high")

READING = frozenset({"read", "search", "think"})
CHANGING = frozenset({"edit", "move"})
PRINTING = frozenset({"pwd", "echo", "which", "date", "true", "false", ":", "printf"})
OPENING = frozenset({"ls", "cat", "head", "tail", "wc", "grep", "rg"})  # read what they name
MOVING = frozenset({"cd", "pushd"})
WRITING = frozenset({"tee", "cp", "mv", "ln", "touch", "mkdir", "install", "sed", "patch"})
COPYING = frozenset({"cp", "ln", "install"})  # write only the last that they name
PATTERNS = ("-e", "-f", "--regexp", "--file")  # then every name of grep's is a file
WRAPPERS = frozenset(
    {"env", "nohup", "time", "nice", "xargs", "command", "exec", "timeout", "builtin"}
    | {"stdbuf", "setsid", "ionice", "find", "parallel", "watch", "coproc", "busybox"}
)
JOINING = frozenset({"parallel", "watch"})  # give their arguments to a shell
DESTRUCTIVE = frozenset(
    {"rm", "rmdir", "sudo", "su", "doas", "pkexec", "dd", "mkfs", "shred", "truncate", "chmod"}
    | {"chown", "kill", "killall", "pkill", "reboot", "shutdown", "systemctl", "crontab", "eval"}
    | {
        "at",
        "mount",
        "umount",
        "iptables",
        "useradd",
        "usermod",
        "passwd",
        "launchctl",
        "unlink",
        "trap",
    }
)
CARRYING = frozenset({"ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet"})
DOWNLOADS = frozenset({"curl", "wget"})
SENDING = re.compile(
    r"-(d|F|T)|--(data|form|upload-file|post-|json|url-query|body-).*|-X.+|--(request|method)\b.*"
)
INTERPRETERS = frozenset({"python", "python3", "node", "perl", "ruby", "php"})
GIT_HARM = frozenset({"push", "reset", "clean", "filter-branch", "rebase"})
PUBLISHING = frozenset({"npm", "docker", "kubectl", "cargo", "twine", "gh", "terraform", "helm"})
PUBLISHED = frozenset({"publish", "delete", "rm", "prune", "apply", "upload", "destroy", "merge"})
STEERING = re.compile(  # variables that make another program run than the one that is named
    r"PATH|IFS|ENV|BASH_ENV|SHELLOPTS|PROMPT_COMMAND|PS4|LD_.*|DYLD_.*|PYTHONPATH|PYTHONSTARTUP"
    r"|NODE_OPTIONS|PERL5OPT|RUBYOPT|GIT_(SSH|EXEC_PATH|EXTERNAL_DIFF|PROXY|ASKPASS).*"
)
SECRETS = re.compile(
    r"(^|[/=@:])(\.ssh|\.aws|\.gnupg|\.netrc|\.pypirc|\.npmrc|\.kube|\.docker|\.git-credentials"
    r"|\.env(?!\.(example|sample|template)$)(\.[^/]*)?|id_(rsa|dsa|ecdsa|ed25519)|credentials"
    r"|shadow|secrets?(\.[^/]*)?|devices\.json)(/|$)|\.(pem|key|p12|pfx)$|/proc/[^/]+/environ"
)
NAMING = re.compile(r"(.*_)?(path|file|filename|target|source|destination|dir|directory|folder)")
SCRATCH = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 (named, not used)
FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


class Place(NamedTuple):
    """Where something runs, and the workspace that it should not leave."""

    cwd: str | None  # None: some folder that is not the workspace
    workspace: str


UNKNOWN = Place("/(unknown)", "/(unknown)")  # relative paths are inside, all others are not


def rate(subject: str, workspace: str = "") -> Risk:
    """Rate a subject's text; ``workspace``: its session's folder, whatever the agent says."""
    facts = jsonrpc.payload(subject.encode())
    if facts.get("kind") == "elicitation":
        return "low"
    place = _place(str(facts.get("cwd") or ""), workspace)
    if "command" in facts:
        return of_command(facts["command"], place)
    kind, paths = facts.get("kind"), paths_of(facts)
    outside = any(not _is_inside(path, place) for path in paths)
    if kind == "delete" or any(SECRETS.search(path) for path in paths):
        return "high"
    if kind in CHANGING:
        return "high" if outside else "medium"
    return "low" if kind in READING and not outside else "medium"


def of_command(command: str | list[str], place: Place = UNKNOWN) -> Risk:
    """Rate a shell command, or a program with its arguments."""
    script = shell.parse(command) if isinstance(command, str) else shell.of_arguments(command)
    return "high" if script is None else _of_script(script, place)


def worst(risks: list[Risk]) -> Risk:
    """Give the highest of some risks; low if there is none."""
    return max(risks, key=ORDER.index, default="low")


def paths_of(facts: Payload) -> list[str]:
    """Give the paths that a subject names, also among the arguments."""
    found: list[Any] = [*facts.get("paths", []), *(d.get("path") for d in facts.get("diffs", []))]
    arguments = facts.get("arguments")
    if isinstance(arguments, dict):
        found += [value for name, value in arguments.items() if NAMING.fullmatch(name)]
    return [path for path in found if isinstance(path, str)]


def is_below(path: str, cwd: str, folder: Path) -> bool:
    """Whether a path leads to somewhere in a folder, links followed."""
    try:
        leads = Path(os.path.realpath(os.path.join(cwd, path)))  # noqa: PTH118
        return leads.is_relative_to(os.path.realpath(folder))
    except ValueError:  # no path at all
        return False


def _place(cwd: str, workspace: str) -> Place:
    folder = workspace or cwd
    if not folder:
        return UNKNOWN
    place = Place(cwd or folder, folder)
    return place if _is_inside(".", place) else place._replace(cwd=None)


# A command line.


def _of_script(script: Script, place: Place) -> Risk:
    if any(_leaves(call, place) for call in script.calls):
        place = place._replace(cwd=None)
    risks = [_of_call(call, place) for call in script.calls]
    risks += [_of_write(word, place) for word in script.writes]
    risks += [_of_read(word, place) for word in script.reads]
    if any(map(STEERING.fullmatch, script.variables)):
        return "high"
    risks.append("medium" if script.substitutes else "low")
    return worst(risks)


def _leaves(call: Call, place: Place) -> bool:
    return call.name in MOVING and not all(
        word.fixed and word.text != "-" and _is_inside(word.text, place)
        for word in call.arguments or (Word("~"),)
    )


def _of_write(target: Word, place: Place) -> Risk:
    if not target.fixed or target.text.startswith(("/dev/tcp/", "/dev/udp/")):
        return "high"
    if target.text in STREAMS:
        return "low"
    if SECRETS.search(target.text) or not _is_inside(target.text, place):
        return "medium" if _is_scratch(target.text) else "high"
    return "medium"


def _of_read(source: Word, place: Place) -> Risk:
    if SECRETS.search(source.text) or source.text.startswith(("/dev/tcp/", "/dev/udp/")):
        return "high"
    is_known = source.fixed and (source.text in STREAMS or _is_inside(source.text, place))
    return "low" if is_known else "medium"


def _of_call(call: Call, place: Place) -> Risk:
    if not call.name or any(map(STEERING.fullmatch, call.variables)):
        return "high"
    if any(SECRETS.search(word.text) for word in call.arguments):
        return "high"
    for names, rate_call in _RULES:
        if call.name in names:
            return rate_call(call, place)
    return "high" if call.name.startswith("mkfs") else "medium"


def _always_high(_call: Call, _at: Place) -> Risk:
    return "high"


def _of_printing(call: Call, _at: Place) -> Risk:
    sets = call.name == "date" and any(w.text.startswith(("-s", "--s")) for w in call.arguments)
    return "medium" if sets else "low"


def _of_opening(call: Call, place: Place) -> Risk:
    words = call.arguments
    if any(word.text.startswith("--pre") for word in words):
        return "high"  # a program that ripgrep runs on each file
    names = [word for word in words if not word.text.startswith("-")]
    if call.name in ("grep", "rg") and not any(w.text.startswith(PATTERNS) for w in words):
        names = names[1:]
    inside = all(word.fixed and _is_inside(word.text, place) for word in names)
    return "low" if inside and all(word.fixed for word in words) else "medium"


def _of_changing(call: Call, place: Place) -> Risk:
    in_place = call.name != "sed" or any(w.text.startswith(("-i", "--in-")) for w in call.arguments)
    named = [word for word in call.arguments if not word.text.startswith("-")]
    if call.name in COPYING and not any(w.text.startswith("-t") for w in call.arguments):
        named = named[-1:]
    if in_place and any(_of_write(word, place) == "high" for word in named):
        return "high"
    return "medium"


def _of_moving(call: Call, place: Place) -> Risk:
    return "medium" if _leaves(call, place) else "low"


def _of_git(call: Call, _at: Place) -> Risk:
    steers = any(word.text.startswith(("-c", "--config-env")) for word in call.arguments)
    return "high" if steers or _has(call, GIT_HARM) else "medium"


def _of_publishing(call: Call, _at: Place) -> Risk:
    return "high" if _has(call, PUBLISHED) else "medium"


def _of_download(call: Call, _at: Place) -> Risk:
    sends = any(SENDING.match(word.text) for word in call.arguments)
    return "high" if sends else "medium"


def _of_interpreter(call: Call, _at: Place) -> Risk:
    return "high" if call.is_fed else "medium"  # what it is fed may be anything


def _of_source(call: Call, _at: Place) -> Risk:
    return "medium" if call.arguments and call.arguments[0].fixed else "high"


def _of_shell(call: Call, place: Place) -> Risk:
    words = call.arguments
    for at, word in enumerate(words):
        if shell.runs_text(word.text):
            script = words[at + 1] if at + 1 < len(words) else Word("", fixed=False)
            inner = of_command(script.text, place) if script.fixed else "high"
            return worst([inner, "medium" if at else "low"])
    files = [word for word in words if not word.text.startswith("-")]
    if call.is_fed or not files:
        return "high"  # it runs what it reads
    return "medium" if files[0].fixed else "high"


def _of_wrapper(call: Call, place: Place) -> Risk:
    words = call.arguments
    if _has(call, DESTRUCTIVE | CARRYING) or any(_is_steering(word) for word in words):
        return "high"
    if call.name in JOINING:
        text = " ".join(word.text for word in words if not word.text.startswith("-"))
        inner = of_command(text, place) if all(word.fixed for word in words) else "high"
        return worst([inner, "medium"])
    start = _start_of_inner(words)
    if call.name == "find":
        start = next((n + 1 for n, w in enumerate(words) if w.text in FIND_RUNS), len(words))
    if start == len(words):
        return "medium"
    inner_words = words[start:]
    if call.name == "xargs":
        inner_words += (Word("", fixed=False),)
    inner = _of_call(Call(inner_words, call.variables, call.is_fed), place)
    has_options = any(word.text.startswith("-") for word in words[:start])
    return worst([inner, "medium" if has_options else "low"])


def _start_of_inner(words: tuple[Word, ...]) -> int:
    """Give where the command begins that a wrapper runs."""
    skipped = re.compile(r"-.*|[A-Za-z_]\w*=.*|[\d.]+[smhd]?|\{\}", re.DOTALL)
    return next((n for n, w in enumerate(words) if not skipped.fullmatch(w.text)), len(words))


def _is_steering(word: Word) -> bool:
    name, assigned, _ = word.text.partition("=")
    return bool(
        (assigned and STEERING.fullmatch(name))
        or word.text.startswith(("-S", "--split-string"))
        or word.text == "-delete"
    )


def _has(call: Call, names: frozenset[str]) -> bool:
    return any(PurePath(word.text).name in names for word in call.arguments)


_Rate: TypeAlias = Callable[[Call, Place], Risk]
_RULES: tuple[tuple[frozenset[str], _Rate], ...] = (
    (DESTRUCTIVE | CARRYING, _always_high),
    (PRINTING, _of_printing),
    (OPENING, _of_opening),
    (MOVING, _of_moving),
    (WRITING, _of_changing),
    (SHELLS, _of_shell),
    (frozenset({".", "source"}), _of_source),
    (WRAPPERS, _of_wrapper),
    (frozenset({"git"}), _of_git),
    (PUBLISHING, _of_publishing),
    (DOWNLOADS, _of_download),
    (INTERPRETERS, _of_interpreter),
)

# Paths.


def _is_inside(path: str, place: Place) -> bool:
    if path.startswith("~") or (place.cwd is None and not path.startswith("/")):
        return False
    return is_below(path, place.cwd or "/", Path(place.workspace))


def _is_scratch(path: str) -> bool:
    return any(Path(os.path.normpath(path)).is_relative_to(folder) for folder in SCRATCH)
