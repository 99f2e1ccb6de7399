"""The one sequence, decide and then perform, and every kind of operation that goes through it.

Imports only packages to its left: common, plugins, hooks, tools, approvals, transcript.
"""
