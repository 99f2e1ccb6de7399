"""``pluggent batch``: many requests in a file, answered together, later; submitted once, whatever happens meanwhile."""
