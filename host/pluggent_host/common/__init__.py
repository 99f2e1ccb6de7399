"""Names, tasks and threads. Knows nothing of pluggent, and imports no other package of the host."""
