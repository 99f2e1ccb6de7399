"""Takes secrets out of requests, results, replies, streams and memories; see ``plugin.Redact``."""
