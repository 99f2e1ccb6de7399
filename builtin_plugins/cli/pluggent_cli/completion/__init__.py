"""Which words complete what is typed in a shell."""
