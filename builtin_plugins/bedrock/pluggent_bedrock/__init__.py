"""Models at Amazon Bedrock, through its Converse API, as a pluggent provider; see ``plugin.Bedrock``."""
