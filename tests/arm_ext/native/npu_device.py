# SPDX-License-Identifier: Apache-2.0
"""An Ethos-U behind Linux's driver, as far as a program can tell: jobs run on the functional model.

`npu_socket_system.cc` brings the system calls here. What it answers is what `drivers/accel/ethosu` of Linux 6.19
answers; beside that it fails where a test tells it to.
"""

import contextlib
import errno
import mmap
import os
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from arm_ext.ethosu.model.stream import CommandStream
from arm_ext.ethosu.payload import Payload
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.native.npu_device_server import serve
from tests.arm_ext.native.npu_driver_check import RefusedError, check
from tests.arm_ext.native.npu_objects import SRAM, Buffer, Connection, Fault, Job, execute, misplaced

_OPEN = 0  # not of an ioctl; what else is not takes up a token
_REGIONS = 8
_REQUESTS = {  # the low half of an ioctl's number: what it belongs to, and which it is
    0x6400: "version",
    0x6409: "gem_close",
    0x642D: "prime",
    0x6440: "query",
    0x6441: "bo_create",
    0x6442: "bo_wait",
    0x6443: "mmap_offset",
    0x6444: "commands_create",
    0x6445: "submit",
    0x6202: "export_sync",
    0x3E04: "sync_info",
}
_WRITTEN = {"commands_create": 24, "submit": 16}  # bytes of an argument; what it points to is read alone


class Device:
    """The device, while the context is open.

    Attributes:
        folder: What ARM_EXT_NPU_TEST_DEVICE has to name.
        faults: By request; a test puts them in and takes them out.
        hang: Jobs never end.
        crash: Jobs end as the driver ends one that hangs: nothing is computed, a wait ends well, the status tells.
        warned: Whether the kernel has written a warning to its log.
        asked: How often each request came.
        driver: The name that the node gives.
        node: The number of the node.
    """

    def __init__(self, accelerator: str, config: int, arch: int, sram: int = 1 << 20) -> None:
        self.npu, self.config, self.arch, self.sram = ACCELERATORS[accelerator], config, arch, sram
        self.faults: dict[str, Fault] = {}
        self.hang = self.crash = self.warned = False
        self.asked: Counter[str] = Counter()
        self.driver, self.node = b"ethosu", 0
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._given: dict[int, Connection] = {}  # by token, until it is attached
        self._numbers = iter(range(1, 1 << 31))

    @classmethod
    def for_payload(cls, payload: Payload, sram: int = 1 << 20) -> "Device":
        return cls(payload.accelerator, payload.config, payload.arch, sram)

    def __enter__(self) -> "Device":
        self._folder = tempfile.TemporaryDirectory(prefix="npu-")
        self.folder = Path(self._folder.name)
        self._server = serve(self, self.folder / "socket")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    @property
    def held(self) -> tuple[int, int]:
        """How many descriptors are open, and how many buffers exist; waits for what is being closed."""
        for _ in range(100):
            files = list(self.folder.glob("buffer-*"))
            if not self._connections and not files:
                break
            time.sleep(0.01)
        return len(self._connections), len(files)

    @contextlib.contextmanager
    def connected(self, what: int, data: bytes) -> Iterator[Connection | int]:
        """A descriptor while it is open, or the error that there is instead."""
        if what == _OPEN:
            self.asked["open"] += 1
            made: Connection | int = self._fault("open") or Connection()
            if data != f"/dev/accel/accel{self.node}".encode():
                made = errno.ENOENT
        else:
            made = self._given.pop(int.from_bytes(data, "little"))
        if isinstance(made, int):
            yield made
            return
        with self._lock:
            self._connections.append(made)
        try:
            yield made
        finally:
            with self._lock:
                self._connections = [c for c in self._connections if c is not made]
            for buffer in made.handles.values():
                buffer.free()

    def control(self, at: Connection, number: int, data: bytearray) -> int:
        """Answers an ioctl in place, and returns its errno."""
        name = _REQUESTS[number & 0xFFFF]
        self.asked[name] += 1
        error = self._fault(name) or int(getattr(self, f"_{name}")(at, data))
        del data[_WRITTEN.get(name, len(data)) :]
        return error

    def _fault(self, name: str) -> int:
        fault = self.faults.get(name)
        if fault is None:
            return 0
        fault.after -= 1
        if fault.after >= 0 or fault.times <= 0:
            return 0
        fault.times -= 1
        return fault.error

    def _version(self, _: Connection, data: bytearray) -> int:
        size, name = struct.unpack_from("<QQ", data, 16)
        data[64 : 64 + size] = self.driver[:size].ljust(size, b"\0")
        struct.pack_into("<QQ", data, 16, len(self.driver), name)
        return 0

    def _query(self, _: Connection, data: bytearray) -> int:
        kind, size = struct.unpack_from("<II", data)
        if kind != 0 or size < 12:
            return errno.EINVAL
        struct.pack_into("<III", data, 16, self.arch, self.config, self.sram)
        return 0

    def _bo_create(self, at: Connection, data: bytearray) -> int:
        size, flags = struct.unpack_from("<QI", data)
        if size == 0 or flags:
            return errno.EINVAL
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        handle = next(self._numbers)
        path = self.folder / f"buffer-{handle}"
        path.write_bytes(b"\xa5" * pages)
        at.handles[handle] = Buffer(pages, path)
        struct.pack_into("<QII", data, 0, pages, 0, handle)
        return 0

    def _mmap_offset(self, at: Connection, data: bytearray) -> int:
        handle, pad = struct.unpack_from("<II", data)
        if pad or handle not in at.handles:
            return errno.EINVAL if pad else errno.ENOENT
        struct.pack_into("<Q", data, 8, handle)
        return 0

    def _gem_close(self, at: Connection, data: bytearray) -> int:
        handle, _ = struct.unpack_from("<II", data)
        if handle not in at.handles:
            return errno.EINVAL
        at.handles.pop(handle).free()
        return 0

    def _commands_create(self, at: Connection, data: bytearray) -> int:
        size, flags, address, _, pad = struct.unpack_from("<IIQII", data)
        if not size or size % 4 or flags or not address or pad:
            return errno.EINVAL
        stream = CommandStream(np.frombuffer(bytes(data[24:]), "<u4"), self.config, self.arch)
        try:
            found = check(stream.words.tolist())
        except RefusedError:
            return errno.EINVAL
        self.warned |= found.resizes
        handle = next(self._numbers)
        at.handles[handle] = Buffer(size, stream=stream, check=found)
        struct.pack_into("<I", data, 16, handle)
        return 0

    def _submit(self, at: Connection, data: bytearray) -> int:
        _, count, pad = struct.unpack_from("<QII", data)
        if count != 1 or pad:
            return errno.EINVAL
        commands, sram, *handles = struct.unpack_from(f"<II{_REGIONS}I", data, 16)
        if sram > self.sram or (sram and handles[SRAM]):
            return errno.EINVAL
        if commands not in at.handles:
            return errno.ENOENT
        stream, found = at.handles[commands].stream, at.handles[commands].check
        if stream is None or found is None:
            return errno.EINVAL
        buffers = {i: at.handles[h] for i, h in enumerate(handles) if h in at.handles}
        if error := misplaced(found.sizes, handles, buffers, self.sram):
            return error
        job = Job()
        if self.crash:
            job.error = -errno.ECANCELED
        elif not self.hang:
            with self._lock:  # one job at a time
                execute(self.npu, stream, sram, buffers)
        if not self.hang:
            job.done.set()
        for region in found.written & buffers.keys():
            buffers[region].job = job
        return 0

    def _bo_wait(self, at: Connection, data: bytearray) -> int:
        handle, pad, deadline = struct.unpack_from("<IIq", data)
        if pad or handle not in at.handles:
            return errno.EINVAL
        job = at.handles[handle].job
        left = deadline / 1e9 - time.clock_gettime(time.CLOCK_MONOTONIC)
        return 0 if job is None or job.done.wait(max(left, 0)) else errno.ETIME

    def _prime(self, at: Connection, data: bytearray) -> int:
        handle, flags = struct.unpack_from("<II", data)
        if handle not in at.handles or flags & ~os.O_CLOEXEC:
            return errno.ENOENT
        self._give(data, 8, Connection(shared=at.handles[handle]))
        return 0

    def _export_sync(self, at: Connection, data: bytearray) -> int:
        if at.shared is None:
            return errno.ENOTTY
        self._give(data, 4, Connection(job=at.shared.job))
        return 0

    def _sync_info(self, at: Connection, data: bytearray) -> int:
        if at.job is None:
            return errno.ENOTTY
        struct.pack_into("<i", data, 32, at.job.error or int(at.job.done.is_set()))
        return 0

    def _give(self, data: bytearray, where: int, connection: Connection) -> None:
        token = next(self._numbers)
        self._given[token] = connection
        struct.pack_into("<i", data, where, token)
