"""What the OpenAPI promises, tried with all it allows and all it forbids (schemathesis)."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from fakes.peers import UplinkPeer
from fakes.served import serving

from bridge.protocol.acp import Role

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
# A cursor is more than a string and a mail's params are an agent's: what fits the schema may still
# be refused. The page serves every path that is no endpoint, so a wrong GET is 404 and not 405.
# All other checks hold, among them: no 500, answers as promised, no way around authentication.
LEFT_OUT = "positive_data_acceptance,unsupported_method"
ENDLESS = "events"  # a stream


@pytest.mark.attack("API", "schemathesis over the OpenAPI: no failure inside, no broken promise")
async def test_every_request_is_answered_as_promised(redis_url, figure, attack_length):
    async with serving(redis_url) as served, UplinkPeer(served) as machine:
        await machine.hello("s1")
        own = ["--header", f"Origin: {served.url}"]
        admin = [*own, "--header", f"Authorization: Bearer {served.token(Role.ADMIN)}"]
        tried = await asyncio.gather(*(run(served, attack_length, who) for who in (admin, own)))
        figure(f"requests of an admin {tried[0]}, of nobody {tried[1]}")
        async with served.client() as client:
            assert (await client.get("/api/me")).status_code == 200


async def run(served, attack_length, who):
    """Run schemathesis to its end; gives how many requests it made."""
    process = await asyncio.create_subprocess_exec(
        *(SCHEMATHESIS, "run", f"{served.url}/api/openapi.json", *who),
        *("--include-path-regex", attack_length("me$|sessions|round-trips|sign-in$", ".")),
        *("--exclude-path-regex", ENDLESS, "--exclude-checks", LEFT_OUT),
        *("--max-examples", str(attack_length(2, 300))),
        *("--phases", attack_length("fuzzing", "coverage,fuzzing")),
        *("--continue-on-failure", "--no-color", "--request-timeout", "20"),
        stdout=PIPE,
        stderr=STDOUT,
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    found = re.search(r"(\d[\d,]*) generated", said)
    assert found, said
    return found[1]
