"""How a stream of bytes is cut into events: server-sent events, and lines of JSON; Amazon's are in aws."""
