"""Signing in and out with a browser, and tickets for its websocket."""

import ssl

import httpx
import pytest
from fakes.served import serving

from bridge.protocol.acp import Role

SECRET_WORDS = ("bridge_local=", "__Host-bridge=")


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server, public_url="https://relay.example") as running:
        yield running


def cookie_of(answer):
    [cookie] = [c for c in answer.headers.get_list("set-cookie") if c.startswith(SECRET_WORDS)]
    name, _, rest = cookie.partition("=")
    value, *attributes = rest.split("; ")
    return name, value, {attribute.lower() for attribute in attributes}


async def test_a_link_signs_in_on_this_machine_with_a_cookie_for_it(served):
    async with served.client(None, Origin=served.url) as browser:
        secret = await served.link(Role.OPERATOR)
        answer = await browser.post(
            "/api/sign-in",
            json={"secret": secret},
            headers={"User-Agent": "Mozilla/5.0 (Linux; Android 15; Pixel 8) Chrome/140"},
        )
        name, _, attributes = cookie_of(answer)
        assert name == "bridge_local"
        assert {"httponly", "samesite=strict", "path=/", "max-age=2592000"} <= attributes
        assert "secure" not in attributes
        assert not any(attribute.startswith("domain") for attribute in attributes)
        assert answer.json()["device"] == "Android"
        me = (await browser.get("/api/me")).json()
        assert (me["subject"], me["role"], me["device"]) == ("alice", "operator", "Android")


async def test_asking_who_one_is_lengthens_the_life_of_the_cookie_and_of_no_token(served):
    async with served.signed_in() as browser:
        _, value, attributes = cookie_of(await browser.get("/api/me"))
        assert value == browser.cookies["bridge_local"]
        assert {"max-age=2592000", "httponly", "samesite=strict"} <= attributes
        token = {"Authorization": f"Bearer {served.token()}"}
        assert "set-cookie" not in (await browser.get("/api/me", headers=token)).headers


async def test_over_https_the_cookie_is_bound_to_the_host(served):
    async with served.client(None, Origin="https://relay.example") as browser:
        answer = await browser.post("/api/sign-in", json={"secret": await served.link()})
        name, value, attributes = cookie_of(answer)
        assert name == "__Host-bridge"
        assert {"httponly", "samesite=strict", "path=/", "secure"} <= attributes
        me = await browser.get("/api/me", headers={"Cookie": f"__Host-bridge={value}"})
        assert me.json()["subject"] == "alice"


async def test_over_plain_http_from_elsewhere_no_cookie_is_set(served):
    origin = "http://192.168.1.5:8787"
    headers = {"Origin": origin, "Host": "192.168.1.5:8787"}
    async with served.client(None, **headers) as phone:
        secret = await served.link()
        refused = await phone.post("/api/sign-in", json={"secret": secret})
        assert refused.status_code == 403
        assert refused.json()["error"]["reason"] == "https_required"
        assert "BRIDGE_TLS_CERT" in refused.json()["error"]["message"]
        assert "set-cookie" not in refused.headers
    async with served.client(None, Origin=served.url) as browser:  # the link is not spent
        assert (await browser.post("/api/sign-in", json={"secret": secret})).status_code == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "https://evil.example", "http://127.0.0.1:1", "http://relay.example"]
)
async def test_a_foreign_page_cannot_sign_a_browser_in(served, origin):
    async with served.client(None) as client:
        headers = {} if origin is None else {"Origin": origin}
        refused = await client.post(
            "/api/sign-in", json={"secret": await served.link()}, headers=headers
        )
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers


async def test_a_spent_link_says_how_to_get_another(served):
    async with served.client(None, Origin=served.url) as browser:
        secret = await served.link()
        await browser.post("/api/sign-in", json={"secret": secret})
        refused = await browser.post("/api/sign-in", json={"secret": secret})
    assert (refused.status_code, refused.json()["error"]["reason"]) == (401, "link_spent")
    assert "chimera-relay link" in refused.json()["error"]["message"]


async def test_signing_out_removes_the_cookie_and_the_login(served):
    async with served.signed_in() as browser:
        kept = browser.cookies["bridge_local"]
        out = await browser.post("/api/sign-out")
        assert out.status_code == 204
        assert {c.split("=")[0] for c in out.headers.get_list("set-cookie")} == {
            "bridge_local",
            "__Host-bridge",
        }
        assert not browser.cookies
        again = await browser.get("/api/me", headers={"Cookie": f"bridge_local={kept}"})
        assert again.status_code == 401


async def test_signing_out_ends_the_connections_of_that_login_alone(served):
    ended = []
    async with served.signed_in() as one, served.signed_in() as other:
        for name, browser in (("one", one), ("other", other)):
            identity = await served.relay.logins.find(browser.cookies["bridge_local"])
            served.relay.identities.watch(identity.token_id, lambda name=name: ended.append(name))
        await one.post("/api/sign-out")
        assert ended == ["one"]
        assert (await other.get("/api/me")).status_code == 200


async def test_a_foreign_page_cannot_sign_a_browser_out(served):
    async with served.signed_in() as browser:
        refused = await browser.post("/api/sign-out", headers={"Origin": "https://evil.example"})
        assert refused.status_code == 403
        assert (await browser.get("/api/me")).status_code == 200


async def test_signing_out_when_nobody_is_signed_in_is_fine(served):
    async with served.client(None, Origin=served.url) as browser:
        assert (await browser.post("/api/sign-out")).status_code == 204


async def test_a_write_with_the_cookie_needs_the_pages_origin(served):
    async with served.signed_in() as browser:
        for origin in ("https://evil.example", "null", "https://relay.example.evil"):
            headers = {"Origin": origin}
            refused = await browser.post("/api/ticket", headers=headers)
            assert refused.status_code == 403, origin
        del browser.headers["Origin"]
        assert (await browser.post("/api/ticket")).status_code == 403


async def test_a_ticket_is_given_to_a_page_and_bound_to_it(served):
    async with served.signed_in(Role.VIEWER) as browser:
        found = (await browser.post("/api/ticket")).json()
        assert found["expiresIn"] == 30
        taken = await served.relay.logins.take_ticket(found["ticket"], served.url)
        assert (taken.role, taken.door) == (Role.VIEWER, "page")


async def test_a_token_in_the_address_is_refused_at_every_door(served):
    token = served.token()
    async with served.client(None, Origin=served.url) as client:
        for method, path in (
            ("GET", "/api/me"),
            ("POST", "/api/sign-in"),
            ("POST", "/api/ticket"),
            ("GET", "/api/sessions/s1/events"),
        ):
            body = {"secret": "x"} if path == "/api/sign-in" else None
            refused = await client.request(method, f"{path}?access_token={token}", json=body)
            assert refused.status_code == 400, path
            assert token not in refused.text


async def test_a_relay_with_a_certificate_sets_secure_cookies(redis_url, certificate):
    cert, key = certificate
    async with serving(redis_url, tls_cert=cert, tls_key=key) as served:
        url = served.url.replace("http://", "https://")
        trust = ssl.create_default_context(cafile=str(cert))
        async with httpx.AsyncClient(
            base_url=url, verify=trust, headers={"Origin": url}
        ) as browser:
            answer = await browser.post("/api/sign-in", json={"secret": await served.link()})
            name, _, attributes = cookie_of(answer)
            assert (name, "secure" in attributes) == ("__Host-bridge", True)
            assert answer.headers["strict-transport-security"].startswith("max-age=")


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 and its key."""
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "relay")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    (tmp_path / "cert.pem").write_bytes(built.public_bytes(Encoding.PEM))
    return tmp_path / "cert.pem", tmp_path / "key.pem"


async def test_a_foreign_page_signs_nobody_out_though_its_form_carries_no_cookie(served):
    """S21: the answer would tell the browser to drop the cookie."""
    async with served.client(None, Origin="https://evil.example") as foreign:
        refused = await foreign.post("/api/sign-out")
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
