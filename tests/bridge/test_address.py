import pytest

from bridge.address import Address, Node, shown
from bridge.protocol.errors import StoreUnavailable


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://alice:hunter2@cache.example:6380/2?ssl=1", "redis://cache.example:6380/2"),
        ("rediss://:hunter2@cache.example", "rediss://cache.example"),
        ("unix://alice:hunter2@/run/redis.sock?password=hunter2", "unix:///run/redis.sock"),
        ("redis://[::1]:6379", "redis://::1:6379"),
        ("redis+cluster://a:hunter2@x:1,y:2", "redis+cluster://x:1,y:2"),
        ("rediss+sentinel://:hunter2@x,y/main/3", "rediss+sentinel://x,y/main/3"),
    ],
)
def test_what_is_shown_of_an_address_holds_no_secret(url, address):
    assert shown(url) == address


def test_a_cluster_is_named_by_some_of_its_nodes():
    found = Address.parse("redis+cluster://alice:p%40ss@one:7000,[::1]:7001,three")
    assert found.form == "cluster"
    assert found.nodes == (Node("one", 7000), Node("::1", 7001), Node("three", 6379))
    assert found.options == {"username": "alice", "password": "p@ss"}
    assert str(found.nodes[1]) == "[::1]:7001"


def test_sentinels_are_named_with_the_service_and_logins_of_both():
    found = Address.parse(
        "rediss+sentinel://:master@one,two:26380/main/2?sentinel_password=guard"
        "&ssl_ca_certs=/ca.pem&ssl_check_hostname=no"
    )
    tls = {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}
    assert (found.form, found.service, found.is_tls) == ("sentinel", "main", True)
    assert found.nodes == (Node("one", 26379), Node("two", 26380))
    assert found.options == {"password": "master", "db": 2, **tls}
    assert found.sentinel_options == {"password": "guard", **tls}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "begins with 'no scheme'"),
        ("hunter2", "begins with 'no scheme'"),
        ("http://hunter2@x", "begins with 'http'; use redis://"),
        ("redis://:hunter2@x:port", "is no URL; write redis://host:port/0"),
        ("redis://:hunter2@x?foo=hunter2", "an option 'foo' that redis:// does not know"),
        ("redis+cluster://:hunter2@", "names no servers; write redis+cluster://host:port"),
        ("redis+cluster://:hunter2@x:1,y:port", "names no servers"),
        ("redis+cluster://:hunter2@x:1/2", "names a database; a Redis Cluster has only 0"),
        ("redis+cluster://x?sentinel_password=hunter2", "an option 'sentinel_password'"),
        ("redis+sentinel://:hunter2@x:1", "names no service; write redis+sentinel://"),
        ("redis+sentinel://:hunter2@x:1/main/two", "names no service"),
        ("redis+sentinel://x/main?ssl_ca_certs=hunter2", "an option 'ssl_ca_certs'"),
    ],
)
def test_what_is_no_address_is_refused_without_showing_its_secret(url, sentence):
    with pytest.raises(StoreUnavailable) as refused:
        Address.parse(url)
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)
