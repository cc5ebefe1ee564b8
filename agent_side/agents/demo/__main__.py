"""Runs the demo agent on standard input and output."""

from agent_side.agents.demo.agent import Agent

if __name__ == "__main__":
    Agent().run()
