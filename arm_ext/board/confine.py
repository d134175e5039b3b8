# SPDX-License-Identifier: Apache-2.0
"""Runs the emulator of a virtual board with as few rights as Linux lets us take away without being root.

A model.so is a program, and QEMU's user mode hands its system calls on to this machine. So a separate process, which
runs this file as a script without the package, gives up rights and then executes the emulator:

- Landlock: files are those that the board needs, to read, and its own folder, to write; no TCP connection but to a
  tracker; no signal to processes outside.
- seccomp: no sockets but those of TCP that the server listens on, no debugging, mounting, modules, keys, clocks; no
  way out of the process group, by which all of it is ended.
- Only the server may start a process, one for each session: its forks are asked for here, and those of a session are
  refused.
- Capabilities, core files, and memory and files beyond limits.

Numbers are of Linux's interface to programs, which does not change: include/uapi/linux/{landlock,seccomp,filter,
audit}.h, and the tables of system calls of x86-64 and arm64.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import resource
import select
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OFF = "ARM_EXT_CONFINE"
"""The environment variable that turns confinement off, with the value "no"."""

_X86 = platform.machine() == "x86_64"
_AUDIT_ARCH = 0xC000003E if _X86 else 0xC00000B7

# Name → number on x86-64 and on arm64; None where there is no such system call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # into other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "setpriority": (141, 140),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # out of the process group
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # around this filter
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # into the system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_SOCKET, _CONNECT = (41, 42) if _X86 else (198, 203)
# Which argument of each are the flags; with MSG_FASTOPEN, sending connects.
_SENDS = {44: 3, 46: 2, 307: 3} if _X86 else {206: 3, 211: 2, 269: 3}
_CLONE, _CLONE3, _FORKS = (56, 435, (57, 58)) if _X86 else (220, 435, ())
_KILL, _PRLIMIT, _SECCOMP, _CAPSET = (62, 302, 317, 126) if _X86 else (129, 261, 277, 91)
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_CLONE_THREAD, _MSG_FASTOPEN, _SIGN = 0x10000, 0x20000000, 0x80000000
_TYPE_OF_SOCKET = 0xF  # the rest are flags
_X32 = 0x40000000  # the other table of system calls that a process of x86-64 has

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SET_MODE_FILTER, _GET_NOTIF_SIZES, _NEW_LISTENER = 1, 3, 8
_RET_KILL, _RET_ERRNO, _RET_NOTIFY, _RET_ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
_NOTIFY_RECV, _NOTIFY_SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION, _RESPONSE = struct.Struct("=QII64s"), struct.Struct("=QqiI")

# Rights to files by Landlock's version: execute to make_sym, then refer, truncate, ioctl on devices.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a folder
_READ_WRITE = (1 << 15) - 1
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_CONNECT_TCP, _SCOPED = 1 << 1, 0b11
_RULE_PATH, _RULE_PORT = 1, 2
_WITH_TCP, _WITH_SCOPES = 4, 6

_CPU_SECONDS = 12 * 3600
_FILE_BYTES = 16 << 30
_OPEN_FILES = 4096
# Address space that the emulator and the runtime reserve and do not use.
_RESERVED_BYTES = 8 << 30
# What others of this user may start meanwhile; the kernel counts them together, and not at all for root.
_SPARE_PROCESSES = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


@dataclass(frozen=True)
class Support:
    """Features of this Linux kernel that can confine a board's process.

    Attributes:
        landlock: Version of Landlock, 0 without.
        seccomp: Whether system calls can be filtered.
        forks: Whether forks can be supervised from outside.
    """

    landlock: int
    seccomp: bool
    forks: bool

    def describe(self) -> str:
        """Return the means of confinement that this machine has, such as "Landlock 7, seccomp"."""
        return f"Landlock {self.landlock}, seccomp" if self.landlock else "seccomp"

    def lacks(self) -> list[str]:
        """Return what a model on a virtual board could do on this machine although it should not, in words."""
        lacks = (
            []
            if self.landlock
            else ["read and write your files", "connect to a board's tracker's port anywhere"]
        )
        if not self.seccomp:
            lacks.append("use the network, and start any number of processes")
        elif not self.forks:
            lacks.append("start processes")
        if self.landlock < _WITH_SCOPES:
            lacks.append("signal your other processes")
        return lacks


def support() -> Support:
    """Return which features this kernel has."""
    if os.environ.get(OFF) == "no" or platform.machine() not in ("x86_64", "aarch64"):
        return Support(0, seccomp=False, forks=False)
    sizes = ctypes.create_string_buffer(6)
    forks = _libc.syscall(_SECCOMP, _GET_NOTIF_SIZES, 0, sizes) == 0
    landlock = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    return Support(max(landlock, 0), seccomp=Path("/proc/sys/kernel/seccomp").exists() or forks, forks=forks)


def confined(
    command: Sequence[str], *, read: Sequence[Path], write: Sequence[Path], tracker_port: int = 0
) -> list[str]:
    """Return the command line that runs another one confined.

    Args:
        command: Command line of the emulator.
        read: Folders and files that it may read and execute.
        write: Folders and files that it may change, too.
        tracker_port: Port of the tracker that it may connect to; 0 for none.
    """
    if os.environ.get(OFF) == "no":
        return list(command)
    paths = [*(f"r{path}" for path in read), *(f"w{path}" for path in write)]
    return [sys.executable, "-I", "-S", __file__, str(tracker_port), *paths, "--", *command]


def _main(port: int, paths: Sequence[str], command: list[str]) -> int:
    """Start the command, answer for its forks until it ends, and return its exit code."""
    has = support()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _confine(has, port, paths, theirs)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(
                2, f"cannot be confined: {error}; {OFF}=no in the environment runs it without\n".encode()
            )
        os._exit(1)
    theirs.close()
    _, ancillary, *_ = ours.recvmsg(1, socket.CMSG_SPACE(4))  # nothing where it ended before
    for _level, _kind, data in ancillary:
        _answer(array.array("i", data)[0], child)
    _, status = os.waitpid(child, 0)
    for path in paths:
        # Its own folder, which it has emptied and has no right to remove.
        with contextlib.suppress(OSError):
            if path[0] == "w":
                Path(path[1:]).rmdir()
    return os.waitstatus_to_exitcode(status) & 0xFF


def _answer(listener: int, server: int) -> None:
    """Let the server fork, and nobody else, until none of its processes is left."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        [(_, event)] = poll.poll()
        if not event & select.POLLIN:
            return
        asked = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _NOTIFY_RECV, asked)
            number, process, _, _ = _NOTIFICATION.unpack(asked)
            error, flags = (0, _CONTINUE) if process == server else (-errno.EAGAIN, 0)
            fcntl.ioctl(listener, _NOTIFY_SEND, _RESPONSE.pack(number, 0, error, flags))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):  # who asked is gone
                raise


def _confine(has: Support, port: int, paths: Sequence[str], supervisor: socket.socket) -> None:
    _limit()
    _call("prctl", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if has.landlock:
        _restrict_files(has.landlock, port, paths)
    # Version 3 of the interface, this process; no capability in any set.
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    _call("capset", _libc.syscall(_CAPSET, header, none))
    listeners: list[int] = []
    if has.seccomp:
        listeners = _filter(has, port)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", listeners))] if listeners else []
    supervisor.sendmsg([b"!"], rights)


def _limit() -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: _CPU_SECONDS,
        resource.RLIMIT_FSIZE: _FILE_BYTES,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_AS: memory + _RESERVED_BYTES,
        resource.RLIMIT_NPROC: _processes() + _SPARE_PROCESSES,
    }
    for which, limit in limits.items():
        _, hard = resource.getrlimit(which)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (value, value))


def _processes() -> int:
    """Return the number of threads that run for this user."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += len(list((entry / "task").iterdir())) if entry.stat().st_uid == os.getuid() else 0
            except OSError:
                continue  # it ended meanwhile
    return found


def _restrict_files(version: int, port: int, paths: Sequence[str]) -> None:
    handled = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]
    attributes = [handled]
    if version >= _WITH_TCP:
        attributes.append(_CONNECT_TCP)
    if version >= _WITH_SCOPES:
        attributes.append(_SCOPED)
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    rules = _call("landlock", _libc.syscall(_LANDLOCK_CREATE, packed, len(packed), 0))
    for path in paths:
        rights = (_READ_WRITE if path[0] == "w" else _READ) & handled
        try:
            fd = os.open(path[1:], os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if not Path(path[1:]).is_dir():
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, fd)
        _call(f"landlock for {path[1:]}", _libc.syscall(_LANDLOCK_ADD, rules, _RULE_PATH, rule, 0))
        os.close(fd)
    if port and version >= _WITH_TCP:
        rule = struct.pack("=QQ", _CONNECT_TCP, port)
        _call("landlock for the tracker", _libc.syscall(_LANDLOCK_ADD, rules, _RULE_PORT, rule, 0))
    _call("landlock", _libc.syscall(_LANDLOCK_RESTRICT, rules, 0))
    os.close(rules)


def _filter(has: Support, port: int) -> list[int]:
    """Start filtering system calls; return the descriptor that reports forks, if forks are supervised."""
    program = b"".join(_program(asks=has.forks, connects=bool(port)))
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(buffer))
    if not has.forks:
        _call("seccomp", _libc.syscall(_SECCOMP, _SET_MODE_FILTER, 0, header))
        return []
    listener = _libc.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, header)
    if listener < 0 and ctypes.get_errno() == errno.EBUSY:  # what runs us listens to us already
        return _filter(Support(has.landlock, seccomp=True, forks=False), port)
    return [_call("seccomp", listener)]


def _program(*, asks: bool, connects: bool) -> list[bytes]:
    """Return the filter in instructions of classic BPF; system calls that it does not name are allowed."""
    fork = _return(_RET_NOTIFY if asks else _RET_ALLOW)
    refuse = _return(_RET_ERRNO | errno.EPERM)
    lines = [_load(4), _skip_if(_AUDIT_ARCH, 1), _return(_RET_KILL), _load(0)]
    if _X86:
        lines += [_bpf(0x35, _X32, 0, 1), _return(_RET_KILL)]  # >=
    for numbers in _REFUSED.values():
        number = numbers[0 if _X86 else 1]
        lines += [] if number is None else _on(number, [refuse])
    lines += [] if connects else _on(_CONNECT, [refuse])
    lines += _on(
        _CLONE3, [_return(_RET_ERRNO | errno.ENOSYS)]
    )  # its flags are in memory; C libraries then clone
    for number in _FORKS:
        lines += _on(number, [fork])
    allow = _return(_RET_ALLOW)
    lines += _on(_CLONE, [_argument(0), _and(_CLONE_THREAD), _skip_if(0, 1), allow, fork])
    is_tcp = [_argument(0), _skip_if(socket.AF_INET, 1), refuse, _argument(1), _and(_TYPE_OF_SOCKET)]
    lines += _on(_SOCKET, [*is_tcp, _skip_if(socket.SOCK_STREAM, 1), refuse, allow])
    for number, flags in _SENDS.items():
        lines += _on(number, [_argument(flags), _and(_MSG_FASTOPEN), _skip_if(0, 1), refuse, allow])
    to_groups = [_argument(0), _skip_unless(0, 1), refuse, _and(_SIGN), _skip_if(0, 1), refuse, allow]
    lines += _on(_KILL, to_groups)
    lines += _on(_PRLIMIT, [_argument(0), _skip_if(0, 1), refuse, allow])
    return [*lines, allow]


def _on(number: int, then: Sequence[bytes]) -> list[bytes]:
    """Return instructions that apply `then` to a system call; it ends with a return. They keep the loaded number."""
    return [_skip_unless(number, len(then)), *then]


def _bpf(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, value)


def _load(offset: int) -> bytes:
    return _bpf(0x20, offset)


def _argument(index: int) -> bytes:
    """Return the instruction that loads the lower half of an argument."""
    return _load(16 + 8 * index)


def _and(mask: int) -> bytes:
    return _bpf(0x54, mask)


def _skip_if(value: int, count: int) -> bytes:
    return _bpf(0x15, value, count, 0)


def _skip_unless(value: int, count: int) -> bytes:
    return _bpf(0x15, value, 0, count)


def _return(action: int) -> bytes:
    return _bpf(0x06, action)


def _call(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    _split = sys.argv.index("--")
    sys.exit(_main(int(sys.argv[1]), sys.argv[2:_split], sys.argv[_split + 1 :]))
