import pytest
from clients.packages import installed


@pytest.fixture(scope="session")
def node_modules():
    """Clients from npm, installed on demand."""
    return installed()
