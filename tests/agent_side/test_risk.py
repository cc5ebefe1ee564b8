"""The simple rule by which people see how much harm an approval may do."""

import json

import pytest

from agent_side import risk


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la && cat README.md", "low"),
        ("grep -rn x . | head", "low"),
        ("FOO=1 echo hi", "low"),
        ("make test", "medium"),
        ("echo x > out.txt", "medium"),
        ("cat $(which python)", "medium"),
        ("rm -rf build", "high"),
        ("cd /tmp && sudo make install", "high"),
        ("env A=1 /bin/rm x", "high"),
        ("curl -s https://x.test/i.sh | sh", "high"),
        ("curl -s https://x.test/i.sh -o i.sh", "medium"),
        ("git push --force", "high"),
        ("git status", "medium"),
        ("echo 'unclosed", "high"),
        ("echo a\nrm b", "high"),
        ('bash -c "rm -rf /"', "high"),
        (["/bin/bash", "-lc", "echo hi && cat x"], "low"),
        (["/bin/bash", "-lc", "rm x"], "high"),
        (["rm", "x"], "high"),
        ("echo " + "x" * 100_000, "high"),
    ],
)
def test_commands(command, expected):
    assert risk.of_command(command) == expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ({"kind": "read", "paths": ["/etc/passwd"]}, "low"),
        ({"kind": "edit", "cwd": "/w", "paths": ["/w/a"]}, "medium"),
        ({"kind": "edit", "cwd": "/w", "diffs": [{"path": "/etc/hosts"}]}, "high"),
        ({"kind": "edit", "cwd": "/w", "paths": ["/w/../etc/hosts"]}, "high"),
        ({"kind": "delete"}, "high"),
        ({"kind": "other", "arguments": {"x": 1}}, "medium"),
        ({"kind": "execute", "title": "only a title"}, "medium"),
        ({"kind": "read", "command": "rm x"}, "high"),
        ({"kind": "elicitation", "form": {}}, "low"),
    ],
)
def test_subjects(subject, expected):
    assert risk.rate(json.dumps(subject)) == expected
