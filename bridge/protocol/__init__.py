"""What relay and connector say to each other: messages and state machines, no I/O."""
