"""Tools, resources and prompts of MCP servers, under pluggent's policies; see ``plugin.Mcp``."""
