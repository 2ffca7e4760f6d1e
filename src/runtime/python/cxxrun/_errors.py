"""Errors that come again in each restart: the launcher knows them by their names and makes none (docs/use/restarts.md).

Each is also what Python's own conventions ask for, so that `except ValueError` finds it."""


class RefusedError(NotImplementedError, ValueError, TypeError):
    """The program asks for what there is not, or in a way that is wrong."""

    __module__ = "cxxrun"


class MissingError(ImportError, RuntimeError):
    """The machine lacks what the program needs: another node may have it."""

    __module__ = "cxxrun"
