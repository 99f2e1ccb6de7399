"""An append-only, hash-chained record of every decision, approval and effect; see ``plugin.Audit``."""
