"""The application as a whole: built from settings, one form of error, an end when a task dies."""

import pytest
from fakes.served import serving

from bridge.app import create_app
from bridge.protocol.errors import InvalidRequest
from bridge.settings import Settings


def test_two_applications_may_stand_side_by_side():
    one, other = create_app(Settings(port=1)), create_app(Settings(port=2))
    assert one is not other
    assert one.openapi() == other.openapi()


async def test_two_relays_of_one_process_share_a_store_and_nothing_else(redis_url):
    async with serving(redis_url) as one, serving(redis_url) as other:
        assert one.relay.node != other.relay.node
        async with other.client(None) as client:
            foreign = await client.get(
                "/api/me", headers={"Authorization": f"Bearer {one.token()}"}
            )
        assert foreign.json()["error"]["message"] == "invalid token"  # each has keys of its own


async def test_a_fault_of_ours_says_nothing_of_its_inside(redis_url, caplog):
    async with serving(redis_url) as served:
        app = served.server.config.app

        async def break_down():
            raise ValueError("hunter2")

        app.router.routes.clear()
        app.add_api_route("/broken", break_down)
        async with served.client(None) as client:
            answer = await client.get("/broken")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, -32603)
    assert "hunter2" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_method_that_is_not_served_is_told_which_are(redis_url):
    async with serving(redis_url) as served, served.client(None) as client:
        answer = await client.request("TRACE", "/api/me")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
async def test_every_refusal_has_one_form(redis_url, method):
    async with serving(redis_url) as served, served.client(None) as client:
        for path in ("/api/me", "/api/sessions/x/mail", "/no/such/path", "/api/sign-in"):
            answer = await client.request(method, path)
            assert answer.status_code >= 400
            error = answer.json()["error"]
            assert {"code", "message", "reason"} <= set(error)


async def test_when_a_background_task_dies_the_relay_ends_and_names_it(redis_url, caplog):
    async def die():
        raise InvalidRequest("no more")

    async def run_until_it_ends():
        async with serving(redis_url) as served:
            await served.relay.tasks.start("of a test", die())
            await served.stopped()

    with pytest.raises(RuntimeError, match="the task of a test died"):
        await run_until_it_ends()
    [record] = [one for one in caplog.records if one.name == "bridge.tasks"]
    assert record.levelname == "ERROR"
    assert "of a test died" in record.getMessage()
