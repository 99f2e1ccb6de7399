"""Makes tools of Python functions, and values of a type of what a model writes: arguments and answers."""
