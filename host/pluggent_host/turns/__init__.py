"""One turn: what is next, who is asked, what is shown.

Imports only packages to its left: common, plugins, hooks, tools, approvals, transcript, operations.
"""
