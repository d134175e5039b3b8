# SPDX-License-Identifier: Apache-2.0
"""Runs the emulator of a virtual board with as few rights as Linux can enforce without root.

A model.so is a program, and QEMU's user mode hands its system calls on to this machine. So a separate process, which
runs this file as a script without the package, gives up rights and then executes the emulator. It stays as the
supervisor of the emulator's processes: the server, and one process for each session, in which models run.

- Landlock: files are those that the board needs, to read, and its own folder, to write, where it makes regular files
  and folders only; no signal to processes outside; no TCP connection to a port other than a tracker's.
- seccomp: system calls are those of one table, which an emulator, the server and TVM's runtime need. All others are
  refused, among them those that Landlock does not govern: modes, owners, times and extended attributes of files,
  watches on them, links; System V's and POSIX message queues, shared memory and semaphores; priorities, scheduling
  and affinity, also of the own threads; debugging, namespaces, keys, clocks. Some in the table take only some
  arguments.
- Only the server executes a program, starts processes (one for each session), makes sockets, binds, listens and
  connects: the supervisor is asked, and lets no session do it. Sockets are of TCP over IPv4. The server binds to
  the loopback interface; it connects to its tracker alone, and no session inherits either socket.
- Capabilities, core files, and memory and files beyond limits.

What remains: a model learns whether a path that it guesses exists, with its size and times (neither Landlock nor
seccomp refuses stat of one path and allows another); it reads the system's programs and libraries, and from /proc
the names, command lines and statistics of processes; it uses processor time, memory and disk space up to the limits;
and what it finds in the kernel's implementation of the calls that it has, nobody excludes.

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
import re
import resource
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OFF = "ARM_EXT_CONFINE"
"""The environment variable that turns confinement off, with the value "no"."""

_X86 = platform.machine() == "x86_64"
_AUDIT_ARCH = 0xC000003E if _X86 else 0xC00000B7

# System calls that are allowed: name → number on x86-64 and on arm64; None where a call does not exist. Those that
# only x86-64 has are older forms of other calls, and some C libraries still use them.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    # memory
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "membarrier": (324, 283),
    "get_mempolicy": (239, 236),
    "set_mempolicy": (238, 237),
    # threads and their end
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "arch_prctl": (158, None),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "gettid": (186, 178),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "wait4": (61, 260),
    "waitid": (247, 95),
    # signals
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "pause": (34, None),
    "tgkill": (234, 131),
    "kill": (62, 129),
    # time
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    # calls that return facts about the process and the system
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "uname": (63, 160),
    "sysinfo": (99, 179),
    "getrandom": (318, 278),
    "prlimit64": (302, 261),
    "prctl": (157, 167),
    # waiting
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "pipe": (22, None),
    "pipe2": (293, 59),
    # descriptors
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "lseek": (8, 62),
    "close": (3, 57),
    "close_range": (436, 436),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "fadvise64": (221, 223),
    # files
    "open": (2, None),
    "openat": (257, 56),
    "stat": (4, None),
    "lstat": (6, None),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    # connections
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "getsockopt": (55, 209),
    "setsockopt": (54, 208),
    # the server
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "socket": (41, 198),
    "bind": (49, 200),
    "listen": (50, 201),
    "connect": (42, 203),
}
# Calls by which a program could reach beyond the board and that models do not need: the supervisor allows them only
# to the server.
_OF_THE_SERVER = ("clone", "fork", "vfork", "execve", "socket", "bind", "listen", "connect")
# Calls by which this program confines itself, and memfd_create. The filter reports memfd_create as missing, so that
# QEMU writes the text that it shows as /proc/self/maps to a file in the board's folder, not to memory that no limit
# counts.
_OTHER_CALLS = {
    "memfd_create": (319, 279),
    "capset": (126, 91),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
_MEMFD_CREATE, _CAPSET, _SECCOMP, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = (
    numbers[0 if _X86 else 1] for numbers in _OTHER_CALLS.values()
)
# From this number on, system calls have the same number on all machines; C libraries have fallbacks for them.
_OPTIONAL = 424

_CLONE_THREAD, _MSG_FASTOPEN, _SIGN = 0x10000, 0x20000000, 0x80000000
_TYPE_OF_SOCKET = 0xF  # the rest are flags
# Allowed fcntl commands: not F_SETOWN and F_SETSIG, which send signals to other processes, nor F_SETLEASE and F_NOTIFY,
# which watch files.
_FCNTL = (
    fcntl.F_DUPFD,
    fcntl.F_DUPFD_CLOEXEC,
    fcntl.F_GETFD,
    fcntl.F_SETFD,
    fcntl.F_GETFL,
    fcntl.F_SETFL,
)
# TCGETS and TCGETS2 (for isatty), FIONCLEX, FIOCLEX, FIONBIO and FIONREAD.
_IOCTL = (0x5401, 0x802C542A, 0x5450, 0x5451, 0x5421, 0x541B)
# PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME and PR_SET_VMA, which names memory of the process.
_PRCTL = (1, 15, 16, 0x53564D41)
_X32 = 0x40000000  # flag of the second table of system calls (x32) on x86-64

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_RET_KILL, _RET_ERRNO, _RET_NOTIFY, _RET_ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
_NOTIFY_RECV, _NOTIFY_SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_CONTINUE_SINCE = (5, 5)
_NOTIFICATION, _RESPONSE = struct.Struct("=QII64s"), struct.Struct("=QqiI")

# Rights to files by Landlock's version: execute to make_sym, then refer, truncate, ioctl on devices.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a folder
# Write a file, remove folders and files, make folders and regular files, move, truncate. No symbolic links, which other
# programs would follow, and no pipes, on which they would block.
_READ_WRITE = _READ | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13 | 1 << 14
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_CONNECT_TCP, _SCOPED = 1 << 1, 0b11
_RULE_PATH, _RULE_PORT = 1, 2
_WITH_TRUNCATE, _WITH_TCP, _WITH_SCOPES = 3, 4, 6

_CPU_SECONDS = 12 * 3600
_FILE_BYTES = 16 << 30
_OPEN_FILES = 4096
# Address space that the emulator and the runtime reserve without using it.
_RESERVED_BYTES = 8 << 30
# Number of processes that other programs of the same user may start meanwhile; the kernel counts all processes of a
# user together, except root's.
_SPARE_PROCESSES = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


@dataclass(frozen=True)
class Support:
    """Features of this Linux kernel that can confine a board's process.

    Attributes:
        landlock: Version of Landlock, 0 without.
        seccomp: Whether system calls can be filtered.
        supervised: Whether a process outside can decide about single system calls.
    """

    landlock: int
    seccomp: bool
    supervised: bool

    def describe(self) -> str:
        """Return the means of confinement that this machine has, such as "Landlock 7, seccomp"."""
        return f"Landlock {self.landlock}, seccomp" if self.landlock else "seccomp"

    def lacks(self) -> list[str]:
        """Return sentences about what a model on a virtual board could do on this machine although it should not."""
        lacks = []
        if not self.landlock:
            lacks.append("read and write your files")
        elif self.landlock < _WITH_TRUNCATE:
            lacks.append("empty files of the emulator's and the runtime's folders that are yours")
        if not self.seccomp:
            lacks += [
                "use the network, and start any number of processes",
                "change modes, owners and times of your files, and watch them",
                "reach your other processes by message queues, shared memory and priorities",
            ]
        elif not self.supervised:
            lacks.append("start processes, and serve ports to the network")
            if self.landlock < _WITH_TCP:
                lacks.append("connect to any machine while the board has a tracker")
            else:
                lacks.append("connect to the port of the board's tracker on any machine")
        if self.landlock < _WITH_SCOPES:
            lacks.append("signal your other processes")
        return lacks


def support() -> Support:
    """Return the features of this kernel."""
    if os.environ.get(OFF) == "no" or platform.machine() not in ("x86_64", "aarch64"):
        return Support(0, seccomp=False, supervised=False)
    landlock = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    supervised = _can_supervise()
    seccomp = supervised or Path("/proc/sys/kernel/seccomp").exists()
    return Support(max(landlock, 0), seccomp=seccomp, supervised=supervised)


def _can_supervise() -> bool:
    """Return whether a seccomp filter can ask a supervisor.

    A process has one supervisor at most, and what runs us may be it already. So a filter that allows everything is
    installed, in a thread, since it holds for the thread that installs it and ends with that.
    """
    if tuple(map(int, re.findall(r"\d+", platform.release())[:2])) < _CONTINUE_SINCE:
        return False
    listeners: list[int] = []

    def install() -> None:
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        listeners.append(_install(_return(_RET_ALLOW), _NEW_LISTENER))

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    if listeners[0] < 0:
        return False
    os.close(listeners[0])
    return True


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
    """Start the command, supervise its processes until it ends, and return its exit code."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _confine(support(), port, paths, theirs)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(
                2, f"cannot be confined: {error}; {OFF}=no in the environment runs it without\n".encode()
            )
        os._exit(1)
    theirs.close()
    _, ancillary, *_ = ours.recvmsg(
        1, socket.CMSG_SPACE(4)
    )  # no data if the child ended before it could send any
    for _level, _kind, data in ancillary:
        _answer(array.array("i", data)[0], child)
    _, status = os.waitpid(child, 0)
    for path in paths:
        # The board's folder: the child has emptied it, but may not remove it.
        with contextlib.suppress(OSError):
            if path[0] == "w":
                Path(path[1:]).rmdir()
    return os.waitstatus_to_exitcode(status) & 0xFF


def _answer(listener: int, server: int) -> None:
    """Allow the reported system calls if the server makes them, until none of its processes is left."""
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
            error, flags = (0, _CONTINUE) if process == server else (-errno.EPERM, 0)
            fcntl.ioctl(listener, _NOTIFY_SEND, _RESPONSE.pack(number, 0, error, flags))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):  # who asked is gone
                raise


def _confine(has: Support, port: int, paths: Sequence[str], supervisor: socket.socket) -> None:
    _limit()
    _call("prctl", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if has.landlock:
        _restrict_files(has.landlock, port, paths)
    # Version 3 of the interface, for this process; all sets of capabilities are empty.
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
    """Start filtering system calls; return the supervisor's descriptors, [] without a supervisor."""
    program = b"".join(_program(supervised=has.supervised, connects=bool(port)))
    listener = _call("seccomp", _install(program, _NEW_LISTENER if has.supervised else 0))
    return [listener] if has.supervised else []


def _install(program: bytes, flags: int) -> int:
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(buffer))
    return int(_libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, header))


def _program(*, supervised: bool, connects: bool) -> list[bytes]:
    """Return the seccomp filter as classic BPF instructions."""
    allow, refuse, absent = (
        _return(_RET_ALLOW),
        _return(_RET_ERRNO | errno.EPERM),
        _return(_RET_ERRNO | errno.ENOSYS),
    )
    of_the_server = _return(_RET_NOTIFY if supervised else _RET_ALLOW)
    lines = [_load(4), _skip_if(_AUDIT_ARCH, 1), _return(_RET_KILL), _load(0)]
    if _X86:
        lines += [_skip_unless_least(_X32, 1), _return(_RET_KILL)]
    checks = _checks(allow, refuse, of_the_server)
    if not connects:
        checks["connect"] = [refuse]
    for name, numbers in _CALLS.items():
        number = numbers[0 if _X86 else 1]
        if number is not None:
            then = [of_the_server if name in _OF_THE_SERVER else allow]
            lines += _on(number, checks.get(name, then))
    lines += _on(_MEMFD_CREATE, [absent])
    return [*lines, _skip_unless_least(_OPTIONAL, 1), absent, refuse]


def _checks(allow: bytes, refuse: bytes, of_the_server: bytes) -> dict[str, list[bytes]]:
    """Return BPF instructions for the system calls whose arguments decide whether they are allowed, by name."""
    unless_fastopen = [_and(_MSG_FASTOPEN), _skip_if(0, 1), refuse, allow]  # MSG_FASTOPEN connects on send
    is_tcp = [*_must_be(0, [socket.AF_INET], refuse), _argument(1), _and(_TYPE_OF_SOCKET)]
    return {
        "clone": [_argument(0), _and(_CLONE_THREAD), _skip_if(0, 1), allow, of_the_server],
        "socket": [*is_tcp, _skip_if(socket.SOCK_STREAM, 1), refuse, of_the_server],
        "sendto": [_argument(3), *unless_fastopen],
        "sendmsg": [_argument(2), *unless_fastopen],
        # not to groups
        "kill": [_argument(0), _skip_unless(0, 1), refuse, _and(_SIGN), _skip_if(0, 1), refuse, allow],
        "prlimit64": [*_must_be(0, [0], refuse), allow],
        "fcntl": [*_must_be(1, _FCNTL, refuse), allow],
        "ioctl": [*_must_be(1, _IOCTL, refuse), allow],
        "prctl": [*_must_be(0, _PRCTL, refuse), allow],
        "setsockopt": [
            *_must_be(1, [socket.IPPROTO_TCP], refuse),
            *_must_be(2, [socket.TCP_NODELAY], refuse),
            allow,
        ],
    }


def _must_be(index: int, values: Sequence[int], refuse: bytes) -> list[bytes]:
    """Return BPF instructions that refuse a system call unless an argument has one of the values."""
    to_end = range(len(values), 0, -1)
    jumps = [_skip_if(value, count) for value, count in zip(values, to_end, strict=True)]
    return [_argument(index), *jumps, refuse]


def _on(number: int, then: Sequence[bytes]) -> list[bytes]:
    """Return BPF instructions that run `then`, which ends with a return, for one system call.

    They keep the loaded number.
    """
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


def _skip_unless_least(value: int, count: int) -> bytes:
    return _bpf(0x35, value, 0, count)


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
