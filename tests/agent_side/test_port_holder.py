import os
import socket

import pytest

from agent_side.port_holder import holder_of


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_the_process_that_listens_is_named(family, host):
    with socket.socket(family) as listening:
        listening.bind((host, 0))
        listening.listen()
        held = holder_of(listening.getsockname()[1])
    assert held.startswith(f"process {os.getpid()} (")
    assert "python" in held


def test_a_free_port_has_no_holder():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert holder_of(port) is None
