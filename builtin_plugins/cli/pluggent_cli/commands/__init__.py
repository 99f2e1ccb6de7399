"""The built-in commands, one module each. Each is imported when it is typed."""
