import asyncio
import ssl
import stat

import pytest

from agent_side import lan


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return folder, lan.certificate_for("127.0.0.1", folder)


async def test_a_client_that_trusts_the_authority_trusts_the_server(kept):
    _, made = kept
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made.certificate, made.key)
    server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=made.authority)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
    server.close()
    import hashlib

    assert hashlib.sha256(shown).hexdigest().upper() == made.fingerprint.replace(":", "")


def test_it_is_kept_for_the_same_address_and_made_anew_for_another(kept):
    folder, made = kept
    again = lan.certificate_for("127.0.0.1", folder)
    assert again.fingerprint == made.fingerprint
    authority = made.authority.read_bytes()
    other = lan.certificate_for("192.0.2.7", folder)
    assert other.fingerprint != made.fingerprint
    assert made.authority.read_bytes() == authority


def test_keys_are_their_owners_alone(kept):
    folder, _ = kept
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
