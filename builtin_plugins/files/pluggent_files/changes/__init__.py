"""Changes files: plans a change, shows it as a diff, writes it atomically, and says how to undo it."""
