"""A pluggent policy that denies, rewrites or asks by capability id and argument pattern."""
