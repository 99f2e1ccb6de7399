"""This host as an MCP server."""
