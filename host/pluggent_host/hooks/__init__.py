"""Calls hook implementations in order and under deadlines. Imports only packages to its left: common, plugins."""
