"""What machine and page must compute alike: the same values stand in the page's pairing.test.ts."""

from bridge.protocol import pairing, signing

TEXT = 'a"\\/\b\f\n\r\t\u0001\u007f\u2028é😀'


def test_a_message_has_one_hash():
    message = {
        "method": "session/prompt",
        "params": {
            "sessionId": "s",
            "prompt": [{"type": "text", "text": TEXT}],
            "😀": 1,
            "\ufb33": [None, True, 0, 2**53 - 1],
            "é": {},
            "z": "",
        },
    }
    assert (
        signing.message_hash(message)
        == "7ed12d429b52a101c7312a5f5a9770d772b0c0f7c6bd5948ee8c1026fc3a8e33"
    )


def test_a_proof_the_words_to_compare_and_words_of_bytes():
    secret = bytes(range(16))
    assert (
        pairing.mac(secret, "answer", "offer é", "answer")
        == "9abb3f7b895b3c0f3851b8d9c7d98babd6400c46907755fb1d59b8f75f3a263b"
    )
    assert pairing.comparison("offer é", "answer", "00ff") == "nopoh-luzuz-gohof"
    assert signing.words(bytes([127, 0, 0, 1, 255, 255])) == "lusab-babad-zuzuz"
