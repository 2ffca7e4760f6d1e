"""Turns state into bytes and back. A pickle can call anything, and an attacker may be able to change the bytes between two
ranks or in a checkpoint. So only the types that are named here are made of them. Those of numpy are not among them: a dtype
can be pickled that takes bytes for the address of an object, so arrays go as their bytes and the name of their type."""
import contextlib
import io
import pickle
import pickletools
import sys
import zipfile
from typing import Any, Set, Tuple

import torch

from cxxrun import _lib
from cxxrun._errors import RefusedError

_NAMED = {
    "builtins": "bool bytearray bytes complex dict float frozenset int list range set slice str tuple",
    "_codecs": "encode",
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "torch": "Size Tensor device",
    "torch._tensor": "_rebuild_from_type_v2",
    "torch._utils": "_rebuild_parameter _rebuild_parameter_with_state _rebuild_qtensor _rebuild_sparse_tensor "
                    "_rebuild_sparse_csr_tensor _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3",
    "torch.nn.parameter": "Buffer Parameter",
    "torch.serialization": "_get_layout",
    "cxxrun.torch._pickled": "_array",
    "cxxrun.torch._state": "Shard _Told",
}
_NAMED.update({f"torch.distributed.{tensor}.placement_types": "Partial Replicate Shard _Partial _StridedShard"
               for tensor in ("tensor", "_tensor")})


def _are_given() -> Set[Tuple[str, str]]:
    """Returns what the program has added with torch.serialization.add_safe_globals, if torch has that."""
    given = getattr(torch.serialization, "get_safe_globals", list)()
    return {(its.__module__, its.__qualname__) for its in given if hasattr(its, "__qualname__")}


def _check(module: str, name: str) -> None:
    its = getattr(torch, name, None) if module == "torch" else None
    is_of_torch = isinstance(its, (torch.dtype, torch.layout, torch.qscheme)) or (
        module.startswith("torch") and name.endswith("Storage") and "." not in name)
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    if not (is_of_torch or name in _NAMED.get(module, "").split() or (module, name) in _are_given()):
        raise RefusedError(f"the state holds {module}.{name}, and other ranks make tensors, arrays and plain values of Python "
                           "alone: let state_dict() give those, or name it to torch.serialization.add_safe_globals")


def _kind(name: str) -> Any:
    """Returns the dtype of that name, which says all of it unless it has fields or holds objects: those are refused."""
    import numpy

    kind = numpy.dtype(str(name))
    if kind.hasobject or kind.fields or kind.subdtype:
        raise RefusedError(f"the state holds an array of {kind}, and other ranks make arrays of plain numbers and texts alone")
    return kind


def _array(name: str, shape: Tuple[int, ...], data: bytes, is_scalar: bool) -> Any:
    import numpy

    array = numpy.ndarray(shape, _kind(name), bytearray(data))
    return array[()] if is_scalar else array


class _Pickler(pickle.Pickler):
    def reducer_override(self, its: Any) -> Any:
        numpy = sys.modules.get("numpy")
        is_scalar = numpy is not None and isinstance(its, numpy.generic)
        if not is_scalar and (numpy is None or type(its) is not numpy.ndarray):
            return NotImplemented
        if its.dtype.fields:
            raise RefusedError(f"the state holds an array of {its.dtype}: let state_dict() give an array for each field")
        return _array, (_kind(its.dtype.str).str, its.shape, its.tobytes(), is_scalar)


class _Pickling:
    """What torch.save needs of the module pickle."""
    Pickler = _Pickler


class _Unpickler(pickle.Unpickler):
    """Reads what torch.save has written. torch.load of 1.13 cannot restrict the types."""

    def __init__(self, archive: zipfile.ZipFile, directory: str) -> None:
        super().__init__(io.BytesIO(archive.read(directory + "data.pkl")), encoding="utf-8")
        self._archive, self._directory, self._storages = archive, directory, {}  # type: ignore[var-annotated]

    def find_class(self, module: str, name: str) -> Any:
        _check(module, name)
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        _, its_type, key, _, _ = pid
        if key not in self._storages:
            data = bytearray(self._archive.read(f"{self._directory}data/{int(key)}"))
            tensor = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            self._storages[key] = (tensor.untyped_storage() if _NEW else tensor.storage().untyped())  # type: ignore[attr-defined]
        dtype = torch.uint8 if its_type is torch.UntypedStorage else its_type.dtype
        return torch.storage.TypedStorage(wrap_storage=self._storages[key], dtype=dtype, **({"_internal": True} if _NEW else {}))


_NEW = not torch.__version__.startswith("1.")


def packed(state: Any) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, pickle_module=_Pickling)
    with zipfile.ZipFile(file) as archive:  # refuse here what no rank could restore, and not when it is needed
        for operation, argument, _ in pickletools.genops(archive.read(_directory(archive) + "data.pkl")):
            if operation.name == "GLOBAL":
                _check(*argument.split(" "))
    return file.getvalue()


_checked = getattr(torch.sparse, "check_sparse_tensor_invariants", contextlib.nullcontext)  # torch 1.13 always checks


def unpacked(data: bytes) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            state = _Unpickler(archive, _directory(archive)).load()
        with _checked():  # as torch.load with weights_only: indices beyond the size would be followed
            torch._utils._validate_loaded_sparse_tensors()
        return state
    except RefusedError as error:  # not written by this program: packed() would have refused it
        raise _lib.Failure(str(error), _lib.USAGE) from None
    except Exception as error:  # pickle raises anything on damaged bytes
        raise _lib.Failure(f"these are no bytes of Elastic's: {type(error).__name__}: {error}", _lib.USAGE) from None
    finally:
        torch._utils._sparse_tensors_to_validate.clear()  # of bytes that were refused


def _directory(archive: zipfile.ZipFile) -> str:
    return archive.namelist()[0].split("/")[0] + "/"
