# SPDX-License-Identifier: Apache-2.0
"""The interface of all boards."""

import platform
import tempfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from arm_ext.board.info import BoardInfo, read_probe
from arm_ext.board.model import LoadedModel
from arm_ext.board.session import BoardLostError, BoardSession
from arm_ext.common.elf import machine_of
from arm_ext.common.errors import EnvError, InternalError, ModelError, UsageError
from arm_ext.common.faults import full_disk
from arm_ext.common.regular_file import UnreadableError
from arm_ext.native.build import probe_module

_PROBE_SECONDS = 60
"""Time limit of a request that a board answers at once; the limit of a session allows for long runs of models."""


class Board:
    """A place where packages run; a context manager that ends what it started.

    A board holds one model at a time, in a session of its own: loading one unloads the one before.

    Attributes:
        name: Name of the board as the user gave it.
        emulated: Whether the board is emulated, so that times taken there mean nothing.
        dump: File that the counting plugin of an emulated board writes; None for a board that does not count.
        machines: Architectures for which the probe is tried, the likeliest first.
    """

    emulated = False
    dump: Path | None = None
    machines: tuple[str, ...] = ("aarch64", "x86_64")

    def __init__(self, name: str) -> None:
        self.name = name
        self._model: LoadedModel | None = None

    def connect(self) -> BoardSession:
        """Open a session.

        Raises:
            EnvError: The board is away or busy.
        """
        raise NotImplementedError

    @cached_property
    def info(self) -> BoardInfo:
        """Return the board's report on its CPU and its runtime.

        Raises:
            EnvError: The board is away or busy, or cannot load a module.
        """
        self._unload()
        session = self.connect()
        try:
            return self.ask(session)
        finally:
            session.close()

    def ask(self, session: BoardSession) -> BoardInfo:
        """Query the board of a session, since the sessions of a tracker may be with different boards.

        Raises:
            EnvError: The board cannot load a module.
        """
        text = self._probe(session)
        if "machine aarch64" in text:
            return read_probe(text)
        # A server on x86 is a full TVM, whose LLVM detects the CPU. The map of features stays on the board; only
        # its text is transferred.
        cpu = str(session.function("target.llvm_get_system_cpu")())
        flags = session.function("tvm.codegen.llvm.GetHostCPUFeatures")()
        return read_probe(text, cpu, str(session.function("ffi.ReprPrint")(flags)))

    def require(
        self, features: Iterable[str], info: BoardInfo | None = None, *, so: Path | None = None
    ) -> None:
        """Refuse a board that has another architecture or lacks a feature, which would crash the program there.

        Args:
            features: LLVM's names, such as "dotprod".
            info: What the board reports of itself, where it was asked for.
            so: The model.so, whose architecture must be the board's.

        Raises:
            EnvError: Names the machine, or the features that are missing.
        """
        info = info or self.info
        if so is not None:
            self._require_machine(so, info)
        missing = sorted(set(features) - info.features)
        if missing:
            raise EnvError(
                f"board {self.name} ({info.cpu}) lacks {', '.join(missing)}; compile with "
                f"--mattr={','.join('-' + name for name in missing)}, or use a board that has it"
            )

    def load(self, so: Path, sha256: str = "") -> LoadedModel:
        """Upload and load a model.so, which replaces the one loaded before.

        Args:
            so: Path of model.so.
            sha256: SHA-256 that the bytes that are uploaded must have; any by default.

        Raises:
            EnvError: The board is away, or of another architecture.
            UsageError: The file is no shared library for a 64-bit Arm or x86 machine, or has another hash; or the
                board cannot load it, or crashes while it does.
        """
        self._require_machine(so, self.info)
        self._unload()
        session = self.connect()
        try:
            # This session is asked whether its board is emulated, since a tracker may hand out another board each time.
            emulated = self.emulated or self.ask(session).emulated
            self._model = self._loaded(session, so, sha256, emulated=emulated)
        except BaseException:
            session.close()
            raise
        return self._model

    def _loaded(self, session: BoardSession, so: Path, sha256: str, *, emulated: bool) -> LoadedModel:
        """Load a model.so; errors are those of the file, and not of a model."""
        try:
            return LoadedModel(session, so, sha256, dump=self.dump, emulated=emulated)
        except ModelError as error:
            raise UsageError(f"{so}: board {self.name} cannot load it: {error}") from error
        except (InternalError, BoardLostError) as error:
            session.close()
            if isinstance(error, BoardLostError) and not self.has_crashed():
                raise
            raise UsageError(f"{so}: crashes when board {self.name} loads it") from error

    def has_crashed(self) -> bool:
        """Whether the last session is known to have ended with a crash of its program."""
        return False

    def require_real(self, info: BoardInfo) -> None:
        """Refuse an emulated board for a measurement of time.

        Raises:
            EnvError: The board is emulated.
        """
        if info.emulated:
            raise EnvError(
                f"board {self.name} is emulated: times measured there mean nothing; use --board virtual, which counts "
                "instructions, or a real one"
            )

    def close(self) -> None:
        """Close the session, and stop the board if it was started here."""
        self._unload()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _require_machine(self, so: Path, info: BoardInfo) -> None:
        try:
            machine = machine_of(so)
        except UnreadableError as error:
            raise UsageError(str(error)) from error
        if machine != info.machine:
            advice = "--board local runs it here" if machine == platform.machine() else "take another board"
            raise EnvError(f"{so} is for {machine}, but board {self.name} is {info.machine}; {advice}")

    def _unload(self) -> None:
        if self._model is not None:
            self._model.close()
            self._model = None

    def _probe(self, session: BoardSession) -> str:
        refusal: ModelError | None = None
        for machine in self.machines:
            try:
                with session.waiting_at_most(_PROBE_SECONDS):
                    module = session.load(probe_module(machine))
            except ModelError as error:  # the probe is built for another architecture than that of the board
                refusal = error
            else:
                with session.guard():
                    return str(module["arm_ext_probe"]())
        if full := full_disk(Path(tempfile.gettempdir())):  # a virtual board's files lie there
            raise EnvError(f"no space left on {full}, which board {self.name} needs; make room") from refusal
        raise EnvError(f"board {self.name} cannot load a module: {refusal}") from refusal
