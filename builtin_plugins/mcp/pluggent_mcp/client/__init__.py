"""Connections to MCP servers: started, greeted, listed, called, ended."""
