"""Tools: their schema, arguments, results and effects. Imports only common, settings, plugins and hooks."""
