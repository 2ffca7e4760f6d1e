"""For the scripts of Elastic that are refused something, in one line."""


def refused(what, call, *arguments, kind=NotImplementedError):
    try:
        call(*arguments)
    except kind as error:
        assert what in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError(f"{what} was not refused")
