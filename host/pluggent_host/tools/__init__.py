"""Tools of a session: effects, results, sources and names. Imports only common, settings, plugins and hooks."""
