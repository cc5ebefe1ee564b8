"""The page's files, its strict headers, and the API's page to read."""

import base64
import gzip
import hashlib
import re

import pytest
from fakes.served import serving

from bridge.endpoints import page
from bridge.endpoints.page import POLICY, built_files

CONTRACT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types default dompurify worker"
)


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A built page of our own."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>page</title>")
    (tmp_path / "assets" / "index-abc.js").write_text("1;" * 2000)
    (tmp_path / "manifest.webmanifest").write_text("{}")
    monkeypatch.setattr(page, "STATIC", tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server) as running:
        yield running


@pytest.fixture
async def client(served):
    async with served.client(None) as asking:
        yield asking


async def test_the_page_comes_with_a_policy_that_lets_nothing_else_in(client, built):
    answer = await client.get("/")
    assert answer.text.startswith("<!doctype html>")
    assert answer.headers["content-security-policy"] == CONTRACT == POLICY
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_every_answer_keeps_browsers_strict(client, built):
    for path in ("/", "/assets/index-abc.js", "/api/me", "/healthz", "/nothing", "/api/docs"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "no-referrer", path
        assert headers["cross-origin-opener-policy"] == "same-origin", path
        assert headers["cross-origin-resource-policy"] == "same-origin", path
        assert "camera=()" in headers["permissions-policy"], path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert "server" not in headers, path
        assert "access-control-allow-origin" not in headers, path


async def test_assets_may_be_kept_for_ever_and_come_compressed(client, built):
    answer = await client.get("/assets/index-abc.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.text == "1;" * 2000
    plain = await client.get("/assets/index-abc.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(built_files(built)["assets/index-abc.js"].zipped) == plain.content


async def test_what_the_browser_has_is_not_sent_again(client, built):
    etag = (await client.get("/")).headers["etag"]
    again = await client.get("/", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


async def test_other_files_come_with_their_type(client, built):
    answer = await client.get("/manifest.webmanifest")
    assert answer.headers["content-type"].startswith("application/manifest+json")


@pytest.mark.parametrize(
    "path",
    [
        "/assets/none.js",
        "/assets/",
        "/../settings.py",
        "/%2e%2e/settings.py",
        "/assets/..%2f..%2fsettings.py",
        "//etc/passwd",
        "/index.html%00",
        "/favicon.ico",
    ],
)
async def test_what_was_not_built_is_not_there(client, built, path):
    answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["reason"] == "not_found"


async def test_without_a_build_the_page_says_how_to_make_one(client, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "STATIC", tmp_path / "none")
    answer = await client.get("/")
    assert answer.status_code == 503
    assert "./dev setup" in answer.text


async def test_the_docs_need_no_script_and_name_every_endpoint(client):
    answer = await client.get("/api/docs")
    schema = (await client.get("/api/openapi.json")).json()
    assert "<script" not in answer.text
    for path in schema["paths"]:
        assert path in answer.text
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
