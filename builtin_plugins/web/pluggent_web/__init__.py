"""A tool that fetches a page of the web as Markdown, and nothing from inside your network; see ``plugin.Web``."""
