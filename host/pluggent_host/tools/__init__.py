"""What a tool is: its schema, its arguments and its results.

Imports only packages to its left: common, plugins, hooks.
"""
