"""A pluggent policy that lets tools with certain effects run within office hours only."""
