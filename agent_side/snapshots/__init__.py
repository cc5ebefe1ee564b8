"""What a folder held before and after each turn, kept apart from the person's own repository."""
