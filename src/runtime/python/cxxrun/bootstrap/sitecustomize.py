"""Runs when Python starts, under a launcher that has put this directory in front of PYTHONPATH (--watch). Arranges that
cxxrun.install() is called when the script imports torch.distributed, and then runs the sitecustomize that this one hides.
Nothing of the package is imported until torch is. Any Python can parse this file, even one that is too old for the package."""
import os
import sys

_C10D = "torch.distributed.distributed_c10d"
_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "_cxxrun_bootstrap"
stacks = None  # the descriptor of cxxrun._install.arm()


class _Waiting(object):
    """A finder that finds nothing. Python asks it first for every import."""

    def _find(self, name, path=None, target=None):
        if name != _C10D:
            return None
        sys.meta_path.remove(self)
        install = _find_install()
        if install is None or not install(False):
            return None
        return sys.meta_path[0].find_spec(name, path, target)

    find_spec = _find  # without annotations, which an old Python cannot parse


def _find_install():
    """Returns install() of the package that the script would import, else of the package around this file, else None."""
    try:
        from cxxrun import _install
    except ImportError:
        root = os.path.dirname(os.path.dirname(_HERE))
        sys.path.append(root)
        try:
            from cxxrun import _install
        except ImportError:  # another module of that name comes first
            return None
        finally:
            sys.path.remove(root)
    return _install.install


def _arm():
    """Does what cxxrun._install.arm() does, without its imports, which would take too long here."""
    global stacks
    try:
        import _signal
        import faulthandler

        number = _signal.SIGRTMIN + 13
        if _signal.getsignal(number) == _signal.SIG_DFL:
            stacks = os.memfd_create("cxxrun-stacks-%d" % number, os.MFD_CLOEXEC)
            faulthandler.register(number, file=stacks, all_threads=True)
    except (AttributeError, ImportError, OSError, RuntimeError):  # not CPython, or an old kernel
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
    if os.environ.get("CXXRUN_AGENT"):  # the warm Python has no agent; it calls install() in its workers
        _arm()
        sys.meta_path.insert(0, _Waiting())
        if os.environ.get("CXXRUN_IMPORTS") and _find_install():  # with --warm
            sys.modules["cxxrun._imports"].begin()
_run_next()
