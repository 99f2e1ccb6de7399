"""Wires whose messages are lists of content blocks: turns that alternate, results, ids, and the order of blocks."""
