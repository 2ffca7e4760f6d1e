"""File access in directories that other users may be able to write to. Symbolic links of other users are not followed, their
files are not trusted, and a file that is being written is open to this user alone until it has its final name. The launcher
and the library do the same (src/base/os/folder.hpp)."""
import os
import stat

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 16


def replace(path: str, data: bytes, own: int = 0) -> None:
    """Replaces the file atomically: afterwards `path` holds `data`, synced to disk, or is unchanged. `own`: so many directories
    above the file must be this user's, and no links."""
    directory, name = _split(path)
    folder = _open_folder(directory, own)
    partial = name + ".partial"  # left behind by a killed writer, it is removed by the next one
    try:
        for tries in range(_TRIES):
            try:
                os.unlink(partial, dir_fd=folder)
            except OSError:
                pass
            try:
                file = os.open(partial, _NEW, 0o600, dir_fd=folder)
                break
            except FileExistsError:  # another user's, or another writer's
                if tries == _TRIES - 1:
                    raise
                partial = f"{name}.{os.urandom(8).hex()}.partial"
        try:
            with os.fdopen(file, "wb") as writer:
                writer.write(data)
                writer.flush()
                _share(file)
                os.fsync(file)
            os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(partial, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def append(path: str, text: str, own: int = 0) -> None:
    """Appends to a file that this user owns and that has a single link. Creates it if it does not exist. `own` as above."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    directory, name = _split(path)
    folder = _open_folder(directory, own)
    try:
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=folder), "a") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1 or not _is_own(facts.st_uid, folder):
                raise PermissionError(f"{path} is no file of this user, or has a second name: remove it")
            file.write(text)
    finally:
        os.close(folder)


def read(path: str) -> bytes:
    """Reads a file of this user, of root, or of the owner of a directory that only that owner can write to. Otherwise raises a
    PermissionError that names the owner."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise PermissionError(f"{path} is no file: remove it, or name another one")
        for whose, what in ((os.lstat(path).st_uid, "link"), (facts.st_uid, "file")):
            if not _is_believed(path, whose):
                raise PermissionError(f"the {what} belongs to uid {whose}, who may have made it beforehand: remove it, or name "
                                      f"a file in a directory of your own; a copy of what you trust is your own")
        return file.read()


def _open_folder(directory: str, own: int) -> int:
    """Opens the directory. Its last `own` names must be directories of this user or of root, and no links."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    names = list(filter(None, os.path.abspath(directory).split("/"))) if own else []
    folder = os.open("/" + "/".join(names[:-own]) if own else directory, flags)
    for name in names[-own:]:
        above = folder
        try:
            folder = os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
        if not _is_own(os.fstat(folder).st_uid, folder):
            os.close(folder)
            raise PermissionError(f"{name} in {directory} belongs to another user")
    return folder


def _is_own(owner: int, folder: int) -> bool:
    return owner in (os.geteuid(), 0) or owner == _own_number(f"/proc/self/fd/{folder}")


def _split(path: str) -> "tuple[str, str]":
    directory, name = os.path.split(path)
    return directory or ".", name


def _is_believed(path: str, owner: int) -> bool:
    if owner in (os.geteuid(), 0):
        return True
    directory = os.path.realpath(_split(path)[0])
    facts = os.stat(directory)
    if owner == facts.st_uid and not facts.st_mode & 0o022 and not _is_strange(directory):
        return True
    return owner == _own_number(directory)


def _is_strange(directory: str) -> bool:
    """Whether a stranger can have made a directory on the way to this one. Trusted are this user, root, and those to whom these
    have given one (src/base/os/path_owners.hpp)."""
    known, at = {os.geteuid(), 0}, "/"
    for name in filter(None, directory.split("/")):
        holder, at = os.stat(at), os.path.join(at, name)
        owner = os.stat(at).st_uid
        if owner not in known and holder.st_mode & 0o022 and owner != holder.st_uid:
            return True
        known.add(owner)
    return False


def _own_number(directory: str) -> int:
    """The uid that new files get in this directory: a file server may map all users to one. -1 if no file can be created."""
    probe = os.path.join(directory, f".cxxrun-{os.urandom(8).hex()}")
    try:
        file = os.open(probe, _NEW, 0o600)
    except OSError:
        return -1
    try:
        return os.fstat(file).st_uid
    finally:
        os.close(file)
        os.unlink(probe)


def _share(file: int) -> None:
    """Applies the umask. It is read from /proc, because umask(2) cannot be read without changing it for all threads."""
    mask = 0o077
    try:
        with open("/proc/self/status") as status:
            mask = next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), mask)
        os.fchmod(file, 0o666 & ~mask)
    except OSError:  # no /proc, or a file system without modes
        pass
