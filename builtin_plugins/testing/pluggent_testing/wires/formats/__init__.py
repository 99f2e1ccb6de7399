"""How the servers of single vendors write: one format a module."""
