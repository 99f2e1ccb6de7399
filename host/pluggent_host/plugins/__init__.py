"""The plugins of one host: opened and closed, and found by the names of what they provide. Imports only common."""
