"""Runs the demo agent on standard input and output."""

import signal
import sys

from agent_side.agents.demo.agent import Agent

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that what runs is ended as well
    Agent().run()
