"""A shell command as its parts: the programs it calls, what it writes to, what feeds what.

Parsed by the grammar of bash, never matched by substring. Text that is no such command gives None:
what cannot be read cannot be called safe.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

READABLE = 16 << 10  # characters of a command; nobody reads more
CALLS_TOLD, WORDS_TOLD = 50, 4000  # programs, and characters in all; a longer one is not told
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell"})

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # bash and the grammar part words otherwise
_SPREADS = re.compile(r"[*?\[{$`]")  # of a program's name: which one runs shows only then
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r'\\(["\\$`])')
_NUMBERS = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)")
_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution"}
    | {"arithmetic_expansion", "ansi_c_string", "translated_string", "brace_expression"}
)
_WORDS = frozenset({"word", "number", "string", "raw_string", "concatenation"}) | _EXPANSIONS
_DECLARING = frozenset({"declaration_command", "unset_command"})

# The grammar's scanner asks C's isalpha() about every character, and reads beyond its table for
# those beyond ASCII: the process dies. It gets words instead that stand for them, which no text
# can know.
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_STANDS = "0u" + secrets.token_hex(4)
_STAND_IN = re.compile(_STANDS + r"([0-9a-f]{6})")


@dataclass(frozen=True)
class Word:
    """One word as it is written; ``fixed``: it is known before it runs."""

    text: str
    fixed: bool = True


@dataclass(frozen=True)
class Call:
    """A program with its arguments, the variables set for it, and whether it reads a pipe."""

    words: tuple[Word, ...]
    variables: tuple[str, ...] = ()
    is_fed: bool = False  # by a pipe, a here-document or a file

    @property
    def name(self) -> str:
        """The program's name without its folder; empty when it shows only when it runs."""
        first = self.words[0]
        if not first.fixed or _SPREADS.search(first.text):
            return ""
        return PurePath(first.text).name

    @property
    def arguments(self) -> tuple[Word, ...]:
        """What follows the name."""
        return self.words[1:]


@dataclass
class Script:
    """All that one command line does, whatever the order."""

    calls: list[Call] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)  # files it writes by itself
    reads: list[Word] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)  # set for the rest of it
    substitutes: bool = False  # it runs something to find out what to run


def parse(text: str) -> Script | None:
    """Read a command line; None when it cannot be read."""
    if len(text) > READABLE or _CONTROLS.search(text):
        return None
    try:
        text.encode()
        plain = _BEYOND_ASCII.sub(lambda found: f"{_STANDS}{ord(found[0]):06x}", text)
        root = _parser().parse(plain.encode()).root_node
    except UnicodeEncodeError:
        return None
    if root.has_error:
        return None
    script = Script()
    for node in _nodes(root):
        if _is_ambiguous(node):
            return None
        _take(node, script)
    return script


def of_arguments(argv: list[str]) -> Script | None:
    """Read a program with its arguments; a shell's own script is read as such."""
    match argv:
        case [shell, flags, text] if PurePath(shell).name in SHELLS and runs_text(flags):
            return parse(text)
    return Script([Call(tuple(Word(part) for part in argv))])


def calls_of(command: str | list[str]) -> list[list[str]] | None:
    """Give the words of each program that a command calls; None when they cannot be told."""
    script = parse(command) if isinstance(command, str) else of_arguments(command)
    if script is None or script.substitutes or len(script.calls) > CALLS_TOLD:
        return None
    if not all(word.fixed for call in script.calls for word in call.words):
        return None
    told = [[word.text for word in call.words] for call in script.calls]
    return told if sum(len(word) for call in told for word in call) <= WORDS_TOLD else None


def runs_text(flags: str) -> bool:
    """Whether these flags of a shell say that a script follows as text."""
    return flags.startswith("-") and not flags.startswith("--") and "c" in flags


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _nodes(root: Node) -> Iterator[Node]:
    """Give all nodes; by a list, because nested commands may be deeper than Python's stack."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _is_ambiguous(node: Node) -> bool:
    """Whether shells may take arithmetic for subshells, or find commands in its subscripts."""
    if node.type == "((":
        return True
    return node.type == "arithmetic_expansion" and not _NUMBERS.fullmatch(_text(node))


def _take(node: Node, script: Script) -> None:
    if node.type == "command":
        _take_call(node, script)
    elif node.type == "file_redirect":
        _take_redirect(node, script)
    elif node.type in _DECLARING:
        script.calls.append(Call((Word("declare"),)))
    elif node.type == "variable_assignment":
        if node.parent is None or node.parent.type != "command":
            script.variables.append(_assigned(node))
    elif node.type in ("command_substitution", "process_substitution"):
        script.substitutes = True


def _take_call(node: Node, script: Script) -> None:
    name = node.child_by_field_name("name")
    variables = tuple(_assigned(c) for c in node.children if c.type == "variable_assignment")
    if name is None:
        script.variables += variables
        return
    first = [_word(child) for child in name.children] or [Word("", fixed=False)]
    rest = [_word(c) for c in node.children_by_field_name("argument") if c.type in _WORDS]
    odd = any(c.type not in _WORDS for c in node.children_by_field_name("argument"))
    if odd:  # such as a regular expression: nothing is known of it
        rest.append(Word("", fixed=False))
    script.calls.append(Call((first[0], *rest), variables, _is_fed(node)))


def _is_fed(node: Node) -> bool:
    """Whether what a call reads on its standard input comes from this command line."""
    if any(child.type == "herestring_redirect" for child in node.children):
        return True
    inner, outer = node, node.parent
    while outer is not None:
        if outer.type == "pipeline" and outer.children[0] != inner:
            return True
        if outer.type == "redirected_statement":
            redirects = outer.children_by_field_name("redirect")
            if any(_reads(redirect) for redirect in redirects):
                return True
        inner, outer = outer, outer.parent
    return False


def _reads(redirect: Node) -> bool:
    return redirect.type != "file_redirect" or any(c.type == "<" for c in redirect.children)


def _take_redirect(node: Node, script: Script) -> None:
    signs = {child.type for child in node.children}
    target = node.child_by_field_name("destination")
    if target is None or (signs & {"<&", ">&"} and target.type == "number"):
        return  # another of its own streams
    (script.reads if "<" in signs else script.writes).append(_word(target))


def _assigned(node: Node) -> str:
    name = node.child_by_field_name("name")
    return _text(name) if name is not None else ""


def _word(node: Node) -> Word:
    kind, text = node.type, _text(node)
    if kind == "raw_string":
        return Word(text[1:-1])
    if kind in ("word", "number"):
        return Word(_ESCAPE.sub(r"\1", text.replace("\\\n", "")))
    if kind == "string":
        if any(child.type in _EXPANSIONS for child in node.children):
            return Word(text[1:-1], fixed=False)
        return Word(_IN_QUOTES.sub(r"\1", text[1:-1].replace("\\\n", "")))
    if kind == "concatenation":
        parts = [_word(child) for child in node.children]
        return Word("".join(part.text for part in parts), all(part.fixed for part in parts))
    return Word(text, fixed=kind not in _EXPANSIONS and kind in _WORDS)


def _text(node: Node) -> str:
    plain = (node.text or b"").decode()
    return _STAND_IN.sub(lambda found: chr(int(found[1], 16)), plain)
