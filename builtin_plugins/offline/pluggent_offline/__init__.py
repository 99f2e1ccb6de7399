"""A deterministic pluggent provider without network, key or model: what answers when none is configured."""
