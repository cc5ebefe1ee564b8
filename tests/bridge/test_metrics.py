"""Counters and gauges, as Prometheus reads them."""

import re

import pytest

from bridge.metrics import Metrics

LINE = re.compile(
    r'bridge_[a-z_]+(\{[a-z_]+="(\\.|[^"\\\n])*"(,[a-z_]+="(\\.|[^"\\\n])*")*\})? -?[0-9.e+]+'
)


@pytest.fixture
def metrics():
    found = Metrics()
    found.counter("requests_total", "requests by status")
    found.gauge("sockets", "open websockets by kind", lambda: {(("kind", "acp"),): 3})
    return found


def test_a_counter_adds_up_by_its_labels(metrics):
    metrics.count("requests_total", status="200")
    metrics.count("requests_total", 2, status="200")
    metrics.count("requests_total", status="503")
    assert metrics.value("requests_total", status="200") == 3
    assert 'bridge_requests_total{status="200"} 3' in metrics.text()
    assert 'bridge_requests_total{status="503"} 1' in metrics.text()


def test_a_gauge_is_read_when_it_is_asked_for(metrics):
    assert 'bridge_sockets{kind="acp"} 3' in metrics.text()


def test_a_counter_that_was_never_used_shows_as_zero(metrics):
    assert "\nbridge_requests_total 0\n" in metrics.text()


def test_every_line_is_a_comment_or_a_series(metrics):
    metrics.count("requests_total", 0.5, status='2"0\\0')
    for line in metrics.text().splitlines():
        assert line.startswith(("# HELP bridge_", "# TYPE bridge_")) or LINE.match(line), line


def test_a_name_is_declared_once_and_well_formed(metrics):
    with pytest.raises(ValueError, match="requests_total"):
        metrics.counter("requests_total", "again")
    with pytest.raises(ValueError, match="No Name"):
        metrics.counter("No Name", "wrong")


def test_the_process_tells_its_memory_and_descriptors(metrics):
    values = dict(line.split(" ") for line in metrics.text().splitlines() if line[0] != "#")
    assert float(values["bridge_resident_memory_bytes"]) > 1 << 20
    assert float(values["bridge_open_files"]) > 2
    assert "bridge_tasks" in values
