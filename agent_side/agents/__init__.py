"""The agents a connector can run: how they are found, started and spoken to."""
