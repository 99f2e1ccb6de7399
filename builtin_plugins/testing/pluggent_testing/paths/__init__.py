"""What every composition of a host has to do on every way into an operation, as tests to be inherited."""

from pluggent_testing.paths.matrix import PathMatrix, path_matrix
from pluggent_testing.paths.operations import EntryPath
from pluggent_testing.paths.table import PATHS

__all__ = ["PATHS", "EntryPath", "PathMatrix", "path_matrix"]
