"""What a Python runs at its start under a launcher that has put this directory in front of PYTHONPATH (--watch): it sees to
it that cxxrun.install() is called when the script imports torch.distributed, and then runs the sitecustomize that is there
without this one. Until torch comes nothing of the package is imported. Any Python can read this, also one that is too old."""
import os
import sys

_C10D = "torch.distributed.distributed_c10d"
_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "_cxxrun_bootstrap"
stacks = None  # the descriptor of cxxrun._stacks


class _Waiting(object):
    """Finds nothing. It is asked first for all that is imported."""

    def _find(self, name, path=None, target=None):
        if name != _C10D:
            return None
        sys.meta_path.remove(self)
        install = _find_install()
        if install is None or not install(False):
            return None
        return sys.meta_path[0].find_spec(name, path, target)

    find_spec = _find  # without types, which an old Python cannot read


def _find_install():
    """install() of the package that the script would import, or else of that around this file; None: of neither."""
    try:
        from cxxrun import _install
    except ImportError:
        root = os.path.dirname(os.path.dirname(_HERE))
        sys.path.append(root)
        try:
            from cxxrun import _install
        except ImportError:  # another thing of that name comes first
            return None
        finally:
            sys.path.remove(root)
    return _install.install


def _arm():
    """As cxxrun._stacks does, whose imports would take longer than this process has."""
    global stacks
    try:
        import _signal
        import faulthandler

        number = _signal.SIGRTMIN + 13
        if _signal.getsignal(number) == _signal.SIG_DFL:
            stacks = os.memfd_create("cxxrun-stacks-%d" % number, os.MFD_CLOEXEC)
            faulthandler.register(number, file=stacks, all_threads=True)
    except (AttributeError, ImportError, OSError, RuntimeError):  # no CPython, or an old kernel
        pass


def _run_next():
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as missing:
        if getattr(missing, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", mine)


sys.path[:] = [each for each in sys.path if each != _HERE]
if sys.version_info >= (3, 8) and _NAME not in sys.modules:
    sys.modules[_NAME] = sys.modules[__name__]
    if os.environ.get("CXXRUN_AGENT"):  # the warm Python has none, and calls install() in its workers
        _arm()
        sys.meta_path.insert(0, _Waiting())
        if os.environ.get("CXXRUN_IMPORTS") and _find_install():  # with --warm
            sys.modules["cxxrun._imports"].begin()
_run_next()
