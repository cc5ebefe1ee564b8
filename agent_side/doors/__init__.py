"""Local clients of a connector: an editor on standard input and output."""
