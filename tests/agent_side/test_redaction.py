"""Secrets stay on the machine: cut out of what goes to the relay, whole everywhere else."""

import json
import time

import msgspec
import pytest
from fakes.relay import FakeRelay
from fakes.running import Running, asks
from hypothesis import given
from hypothesis import strategies as st

from agent_side.redaction import BadPattern, Redaction
from agent_side.settings import ConnectorSettings

BODY = "MIIEpAIBAAKCAQEA" * 4
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    "private key": PEM,
    "private key of OpenSSH": PEM.replace("RSA", "OPENSSH"),
    "private key that was cut": PEM[:60],
    "GitHub token": "ghp_" + "a1B2" * 9,
    "GitHub token, fine-grained": "github_pat_" + "a1B2" * 9,
    "GitLab token": "glpat-" + "a1B2" * 5,
    "API key": "sk-" + "a1B2" * 9,
    "API key of a project": "sk-ant-api03-" + "a1-B" * 9,
    "payment key": "sk_live_" + "a1B2" * 6,
    "AWS key": "AKIA" + "A1B2" * 4,
    "Google key": "AIza" + "a1B2c" * 7,
    "Google token": "ya29." + "a1B2c" * 7,
    "Slack token": "xoxb-1234567890-abcdef",
    "npm token": "npm_" + "a1B2" * 9,
    "PyPI token": "pypi-" + "a1B2" * 15,
    "Hugging Face token": "hf_" + "a1B2" * 9,
    "signed token": "eyJhbGciOiJF.eyJpc3MiOiJj.c2lnbmF0dXJl",
    "bearer token": ("Authorization: Bearer ", "a1B2c3D4e5F6g7H8"),
    "login in a header": ("Authorization: Basic ", "YWxpY2U6aHVudGVyMjI="),
    "login in an address": ("postgres://", "alice:hunter2", "@db/x"),
    "value": ("export DB_PASSWORD=", "hunter2hunter2"),
    "value in quotes": ('"API_TOKEN": "', "hunter2hunter2", '"'),
    "secret key of AWS": ("aws_secret_access_key=", "wJalrXUtnFEMI/K7MDENG+bPxRfi"),
}


def parts_of(secret):
    before, kept, *after = ("", secret) if isinstance(secret, str) else secret
    return before, kept, "".join(after)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_cut_out_and_what_stands_around_it_stays(kind):
    before, secret, after = parts_of(SECRETS[kind])
    told = {"text": f"it says {before}{secret}{after}", "more": ["plain", 1e3]}
    cleaned = json.loads(bytes(Redaction().clean(told)))
    name = kind.partition(",")[0]
    assert secret not in json.dumps(cleaned)
    assert cleaned["text"].startswith(f"it says {before}[secret: ")
    assert cleaned["text"].endswith(f"]{after}")
    assert cleaned["more"] == told["more"]
    assert Redaction().kinds(json.dumps(told).encode())[0] in cleaned["text"], name


ORDINARY = [
    "a task-based and risk-averse design, see sk-learn-like-names-of-long-classes",
    "https://example.com/a:b@c and git@github.com:x/y.git at http://host:8080/",
    "API_KEY = os.environ['API_KEY']; TOKEN = get_token(request); KEY = value",
    "bearer of bad news, basic things: Basic authentication is explained below",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEq alice@host",
    "0199c5ad-8f2e-7cc2-9f6e-0d8c3b1a2f4e 9c3f2b7d" * 4,
    "KEY: the key; TOKENS: 100; SECRET=$SECRET PASSWORD=${PASSWORD} GITHUB_TOKEN=$(gh auth)",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_byte_for_byte(text):
    raw = msgspec.Raw(json.dumps({"text": text}, indent=1).encode())
    assert Redaction().clean(raw) is raw
    assert Redaction().kinds(bytes(raw)) == []


def test_own_patterns_and_none_at_all():
    own = Redaction(patterns=[r"ACME-\d{6}", r"(?i)internal-\w+"])
    assert json.loads(own.text(b'{"a":"see ACME-123456 and Internal-x"}')) == {
        "a": "see [secret] and [secret]"
    }
    off, raw = Redaction(on=False, patterns=["x"]), json.dumps([PEM]).encode()
    assert off.text(raw) is raw
    assert off.kinds(raw) == []


@pytest.mark.parametrize("pattern", ["(", "x*", "", "[a"])
def test_a_pattern_that_cannot_be_used_is_named(pattern):
    with pytest.raises(BadPattern):
        Redaction(patterns=[pattern])


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_whatever_is_said_stays_json_of_the_same_shape(value):
    """A law: what holds no secret is the same bytes; what holds one is still JSON."""
    redaction = Redaction()
    raw = json.dumps({"text": value, "own": parts_of(SECRETS["API key"])[1]}).encode()
    cleaned = json.loads(redaction.text(raw))
    assert cleaned["own"] == "[secret: API key]"
    assert json.loads(redaction.text(json.dumps(cleaned).encode())) == cleaned


@pytest.mark.parametrize(
    "text",
    ["eyJ-", "sk-", "eyJaaaaaaaa.", "-----BEGIN ", "A_", "KEY", "://a:", "Bearer ", "KEY=a", '"\\'],
)
def test_no_text_keeps_the_connector_long(text):
    """S06: time grows with the length alone."""
    redaction, long = Redaction(), text * (1 << 18)
    began = time.process_time()
    redaction.text(json.dumps(long).encode())
    redaction.is_open(long)
    assert time.process_time() - began < 3


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_whose_end_is_still_to_come_is_seen_at_every_cut(kind):
    before, secret, _ = parts_of(SECRETS[kind])
    whole, redaction = f"it says {before}{secret}", Redaction()
    first = len("it says ") + len(before) + 1
    for cut in range(first, len(whole)):
        assert redaction.is_open(whole[:cut]), whole[:cut]


@pytest.mark.parametrize(
    "text", ["", "Look", " through", " function.", "the end\n", "a, b; c)", "x = 1"]
)
def test_ordinary_pieces_wait_for_nothing(text):
    assert not Redaction().is_open(text)


# Through a connector.


def chunk(text):
    content = {"type": "text", "text": text}
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": content}}


KEY = SECRETS["GitHub token"]
TOOL = {
    "sessionUpdate": "tool_call",
    "toolCallId": "t1",
    "title": "Read .env",
    "rawOutput": {"text": PEM},
    "_meta": {"agent": KEY},
}


@pytest.mark.attack("S29", "secrets in what an agent says, in one piece and in many")
async def test_no_secret_leaves_the_machine_and_the_editor_sees_all(tmp_path, figure):
    pieces = [chunk(f"it is {KEY} and"), *(chunk(letter) for letter in f" again {KEY} is it")]
    turn = [*pieces, {"update": TOOL}, chunk("done")]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[turn]) as running:
        await relay.attached()
        session = await running.session()
        await running.prompt(session, f"use {KEY}")
        await relay.until(lambda: "ended" in relay.turns(session))
        sent = b"".join(text for _, text in relay.entries[session])
        said = json.dumps(relay.told).encode()
        leaked = sum(
            text.count(one) for text in (sent, said) for one in (KEY.encode(), BODY.encode())
        )
        figure(f"secrets at the relay {leaked}")
        assert leaked == 0
        text = "".join(relay.texts(session))
        assert text == "it is [secret: GitHub token] and again [secret: GitHub token] is itdone"
        [card] = [e for e in running.updates(session) if e["sessionUpdate"] == "tool_call"]
        assert card["rawOutput"] == {"text": PEM}
        assert KEY in json.dumps(running.door.entries)


async def test_what_will_run_is_shown_as_it_is_and_says_that_it_holds_a_secret(tmp_path):
    command = f"curl -H 'Authorization: Bearer {KEY}' https://host"
    turn = [asks({"rawInput": {"command": command}})]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[turn]) as running:
        await relay.attached()
        running.prompt(await running.session())
        [question] = await relay.until(relay.questions)
        trip = question["params"]["_meta"]["chimera.bridge"]["roundTrip"]
        subject = json.loads(trip["subject"])
        assert subject["command"] == command
        assert subject["secrets"] == ["GitHub token", "bearer token"]
        relay.decide(question, {"optionId": "yes"}, "d-1")
        assert (await relay.outcome("d-1")).result["result"] == "applied"


async def test_an_entry_asked_for_in_full_comes_without_its_secrets(tmp_path):
    update = {**TOOL, "rawOutput": {"text": PEM + "x" * 200_000}}
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, turns=[[{"update": update}]]) as running,
    ):
        await relay.attached()
        session = await running.session()
        await running.prompt(session)
        [call] = await relay.until(
            lambda: [m for m in relay.messages(session, "session/update") if "full" in stamp(m)]
        )
        at = f"{stamp(call)['epoch']}:{stamp(call)['seq']}"
        text, offset = "", 0
        while offset is not None:
            relay.request(
                offset, "uplink/history", {"sessionId": session, "at": at, "offset": offset}
            )
            answer = await relay.until(lambda n=offset: relay.answers.get(n))
            text += answer["result"]["text"]
            offset = answer["result"]["next"]
        whole = json.loads(text)["params"]["update"]
        assert whole["rawOutput"]["text"] == "[secret: private key]" + "x" * 200_000
        assert "full" in stamp(call)


async def test_a_piece_that_began_a_secret_is_let_go_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr("agent_side.log.OPEN_SECONDS", 0.1)
    turn = [chunk("ask the sk"), {"delay_until_file": str(tmp_path / "go")}]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[turn]) as running:
        await relay.attached()
        session = await running.session()
        running.prompt(session)
        await relay.until(lambda: relay.texts(session) == ["ask the sk"])
        (tmp_path / "go").touch()


async def test_the_owner_may_send_everything(tmp_path):
    settings = {"redaction": Redaction(on=False)}
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, settings=settings, turns=[[chunk(KEY)]]) as running,
    ):
        await relay.attached()
        session = await running.session()
        await running.prompt(session)
        await relay.until(lambda: relay.texts(session) == [KEY])
        held = {one.what: one.holds for one in relay.hellos[-1].agents[0].guarantees}
        assert held["secrets"] == "never"


def stamp(message):
    return message["params"]["_meta"]["chimera.bridge"]


def test_secrets_are_kept_unless_told_otherwise(tmp_path):
    assert ConnectorSettings("a", tmp_path, tmp_path).redaction.on


def test_looking_for_secrets_costs_little(figure):
    redaction, update = (
        Redaction(),
        msgspec.Raw(json.dumps(chunk("a word or two of text " * 12)).encode()),
    )
    began = time.process_time()
    for _ in range(5_000):
        redaction.fields({"update": update})
    each = (time.process_time() - began) / 5_000
    figure(f"looking for secrets: {each * 1e6:.1f} us for an entry of {len(update)} bytes")
    assert each < 0.001
