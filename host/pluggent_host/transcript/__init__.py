"""What a session records, as bytes and back, and the conversation rebuilt from it.

Imports only packages to its left: common, plugins, hooks, tools, approvals.
"""
