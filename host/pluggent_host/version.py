"""The version, a literal, so that ``pluggent --version`` reads nothing."""

VERSION = "0.1.0"
