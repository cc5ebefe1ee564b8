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
@pytest.mark.parametrize("role", [Role.ADMIN, None], ids=["an admin", "nobody"])
async def test_every_request_is_answered_as_promised(redis_url, figure, attack_length, role):
    async with serving(redis_url) as served, UplinkPeer(served) as machine:
        await machine.hello("s1")
        url = f"{served.url}/api/openapi.json"
        token = ["--header", f"Authorization: Bearer {served.token(role)}"] if role else []
        process = await asyncio.create_subprocess_exec(
            *(SCHEMATHESIS, "run", url, *token, "--header", f"Origin: {served.url}"),
            *("--exclude-path-regex", ENDLESS, "--exclude-checks", LEFT_OUT),
            *("--max-examples", str(attack_length(2, 300))),
            *("--phases", attack_length("fuzzing", "coverage,fuzzing")),
            *("--continue-on-failure", "--no-color", "--request-timeout", "20"),
            stdout=PIPE,
            stderr=STDOUT,
        )
        said = (await process.communicate())[0].decode()
        cases = re.search(r"(\d[\d,]*) generated", said)
        assert cases, said
        figure(f"{role or 'nobody'}: {cases[1]} requests")
        assert process.returncode == 0, said
        async with served.client() as admin:
            assert (await admin.get("/api/me")).status_code == 200
