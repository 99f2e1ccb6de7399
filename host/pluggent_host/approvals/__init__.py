"""What a pending request and an approval are, and what an approval covers. Values and rules.

Imports only packages to its left: common, plugins, hooks, tools.
"""
