"""The connector: runs beside one agent and offers its sessions to people, near and far."""
