# SPDX-License-Identifier: Apache-2.0
"""Boards: one interface to the emulated board, this machine, and boards that are reached over the network."""

from collections.abc import Sequence

from arm_ext.board.base import Board
from arm_ext.board.deployed import DeployedBoard
from arm_ext.board.info import BoardInfo
from arm_ext.board.local import LocalBoard
from arm_ext.board.model import LoadedModel
from arm_ext.board.remote import RemoteBoard, TrackedBoard
from arm_ext.board.spec import parse_spec
from arm_ext.board.virtual import VirtualBoard, emulated_cpu
from arm_ext.common.cores import cores_text
from arm_ext.common.errors import UsageError

__all__ = ["Board", "BoardInfo", "LoadedModel", "check_cores", "check_threads", "open_board"]

_SESSION_SECONDS = 600.0


def check_cores(spec: str, cores: Sequence[int]) -> None:
    """Refuse cores for a board that cannot choose them.

    Raises:
        UsageError: The board cannot choose cores.
    """
    parsed = parse_spec(spec)
    if cores and parsed.kind == "virtual":
        raise UsageError("--cores: a virtual board counts instructions and has no cores to choose from")
    if cores and not parsed.starts_server:
        raise UsageError(
            f"--cores: the server of board {spec} is not started here; start it on these cores: "
            f"taskset -c {cores_text(cores)} python -m tvm.exec.rpc_server"
        )


def check_threads(spec: str, threads: int | None) -> None:
    """Refuse a number of threads for a board whose runtime has its own.

    Raises:
        UsageError: The board's server is not started here.
    """
    if threads is not None and not parse_spec(spec).starts_server:
        raise UsageError(
            f"--threads: the server of board {spec} is not started here; start it with TVM_NUM_THREADS={threads} in "
            "its environment"
        )


def open_board(
    spec: str,
    *,
    profile: str = "",
    profile_cpu: str | None = None,
    counting: bool = False,
    threads: int | None = None,
    caches: tuple[int, int] | None = None,
    calls: bool = False,
    cores: Sequence[int] = (),
    timeout: float = _SESSION_SECONDS,
) -> Board:
    """Open a board; use it in a `with` statement.

    Args:
        spec: A name as `parse_spec` takes it; the CPU of a virtual board is a profile's name or QEMU's.
        profile: Name of the profile of what will run.
        profile_cpu: QEMU's CPU for it, for a virtual board whose name leaves it open or is the profile's.
        counting: Whether `LoadedModel.count` is wanted; virtual boards alone can.
        threads: Number of threads that models run on, on a board whose server is started here. By default one on a
            board that counts, and else the runtime's choice, or one for each of `cores`.
        caches: Bytes of an L1 and L2 whose misses are counted beside instructions, on one thread.
        calls: Whether `LoadedModel.count_calls` is wanted, on one thread.
        cores: Cores that models run on, on a board whose server is started here.
        timeout: Seconds that a session, that is the use of one loaded model, may last.

    Raises:
        UsageError: `spec` names no board, or one that cannot count or has its own number of threads or cores.
        EnvError: This machine lacks what the board needs, or a board behind ssh or adb is out of reach. Boards at an
            address are only contacted when they are used.
    """
    parsed = parse_spec(spec)
    check_cores(spec, cores)
    check_threads(spec, threads)
    if parsed.kind == "virtual":
        cpu = emulated_cpu(parsed.cpu, profile, profile_cpu)
        return VirtualBoard(
            cpu, counting=counting, threads=threads, timeout=timeout, caches=caches, calls=calls
        )
    if counting:
        raise UsageError(f"board {spec} does not count instructions; use virtual or virtual:CPU")
    if parsed.kind == "local":
        return LocalBoard(timeout, cores, threads)
    if parsed.kind in ("ssh", "adb"):
        return DeployedBoard(spec, parsed, timeout, threads=threads, cores=cores)
    if parsed.kind == "tracker":
        return TrackedBoard(parsed.host, parsed.port, parsed.key, timeout)
    return RemoteBoard(parsed.host, parsed.port, timeout)
