"""A directory whose file system answers nothing but chdir, as one whose server is gone: FUSE without a program. Root."""
import contextlib
import ctypes
import os
import struct
import subprocess
import threading

INIT, ACCESS, ENOSYS, MNT_DETACH = 26, 34, 38, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def answer(device):
    """INIT as version 7.31, and ACCESS as a system call that there is not, so that it is not asked again."""
    for expected, error, more in ((INIT, 0, struct.pack("=II", 7, 31) + bytes(56)), (ACCESS, -ENOSYS, b"")):
        _, what, unique = struct.unpack_from("=IIQ", os.read(device, 1 << 17))
        assert what == expected, what
        os.write(device, struct.pack("=IiQ", 16 + len(more), error, unique) + more)


@contextlib.contextmanager
def hanging(path):
    """Whoever is in it at the end gets an error for what it waits for."""
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
        if LIBC.mount(b"hanging", os.fsencode(path), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        answering = threading.Thread(target=answer, args=(device,))
        answering.start()
        subprocess.run(["env", "-C", path, "true"], check=True)
        answering.join()
        yield path
    finally:
        LIBC.umount2(os.fsencode(path), MNT_DETACH)
        os.close(device)
