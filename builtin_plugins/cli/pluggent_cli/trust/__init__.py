"""What a person accepted: files of a working directory, packages with hooks, and the hooks that ran before."""
