"""Finds files and lines below a folder: walks it, leaves out what is ignored, matches names and contents."""
