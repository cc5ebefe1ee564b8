"""The environment of a child process: this one without its secrets, but for those it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

# What the last words of a variable's name are when it usually holds a secret.
SECRET_ENDINGS = (
    *("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS"),
    *("_PWD", "_PAT", "_AUTH", "_DSN", "_COOKIE"),
)
SECRET_PARTS = ("SECRET", "PASSWORD")  # wherever in a name they stand
# The bridge's own, which no agent is ever given.
NEVER_PASSED = frozenset({"FERRET_BRIDGE_TOKEN", "CHIMERA_BRIDGE_TOKEN", "FERRET_SERVER_TOKEN"})
PASSED_ON = "CHIMERA_BRIDGE_PASS_ENV"  # secrets that the owner passes on, "NAME,NAME"
VALUE_LENGTH = 8  # characters; shorter values would be found in any text


def child_environment(
    environ: Mapping[str, str], secrets: Collection[str], passed: Collection[str] = ()
) -> dict[str, str]:
    """Give the environment without secrets, but for those an agent needs or the owner names."""
    named = (name.strip() for name in environ.get(PASSED_ON, "").split(","))
    kept = {*secrets, *passed, *named}
    return {
        name: value
        for name, value in environ.items()
        if name not in NEVER_PASSED and (name in kept or not looks_secret(name))
    }


def looks_secret(name: str) -> bool:
    """Whether a variable of this name usually holds a secret."""
    upper = name.upper()
    return upper.endswith(SECRET_ENDINGS) or any(part in upper for part in SECRET_PARTS)


def secret_values(environ: Mapping[str, str]) -> Iterator[str]:
    """Give what the secrets of an environment are, to look for it in what leaves the machine."""
    for name, value in environ.items():
        if looks_secret(name) and len(value) >= VALUE_LENGTH and not value.startswith(("/", "~/")):
            yield value
