"""Errors that would come again after a restart. The launcher knows them by name and does not restart the job
(docs/use/restarts.md).

Each class also derives from the standard exceptions for its kind, so that `except ValueError` catches it."""


class RefusedError(NotImplementedError, ValueError, TypeError):
    """The program asks for something that is not supported, or calls it in a wrong way."""

    __module__ = "cxxrun"


class MissingError(ImportError, RuntimeError):
    """This machine lacks something that the program needs. Another node may have it."""

    __module__ = "cxxrun"
