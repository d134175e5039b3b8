# SPDX-License-Identifier: Apache-2.0
"""Importing damaged files in a process of its own, which may crash, hang or ask for all memory."""

import multiprocessing
import os
import resource
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from arm_ext.common.errors import ArmExtError, InternalError
from arm_ext.frontends.load import import_model
from tests.fuzz.damage import damaged

# Beyond what the libraries take; the models that are damaged have a few hundred kilobytes.
MEMORY_BYTES = 4 << 30
# A file takes a second at most.
TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Outcome:
    """What became of a damaged file.

    Attributes:
        number: Which of the run.
        what: "imported", the class of a clean error, or "defect".
        why: The error's message.
    """

    number: int
    what: str
    why: str = ""


def make(files: list[bytes], kind: str, seed: int, number: int) -> bytes:
    """Return damaged file `number` of a run."""
    rng = np.random.default_rng((seed, number))
    return damaged(files[number % len(files)], kind, rng)


def import_damaged(
    files: list[bytes], kind: str, seed: int, numbers: range, folder: Path
) -> Iterator[Outcome]:
    """Import damaged files one after the other; a process that ends or hangs is a defect of the file it was at."""
    at = numbers.start
    while at < numbers.stop:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        rest = range(at, numbers.stop)
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(files, kind, seed, rest, folder, theirs), daemon=True
        )
        process.start()
        theirs.close()
        try:
            while at < numbers.stop:
                if not ours.poll(TIMEOUT_SECONDS):
                    yield Outcome(at, "defect", f"hangs for {TIMEOUT_SECONDS} seconds")
                    at += 1
                    break
                yield ours.recv()
                at += 1
        except EOFError:
            process.join()
            yield Outcome(at, "defect", f"ends the process with {process.exitcode}")
            at += 1
        finally:
            process.kill()
            process.join()


def _work(
    files: list[bytes], kind: str, seed: int, numbers: range, folder: Path, outcomes: Connection
) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    path = folder / f"damaged.{kind}"
    for number in numbers:
        path.write_bytes(make(files, kind, seed, number))
        outcomes.send(_import(number, path))


def _import(number: int, path: Path) -> Outcome:
    try:
        import_model(path)
    except InternalError as err:
        return Outcome(number, "defect", str(err))
    except ArmExtError as err:
        return Outcome(number, type(err).__name__, str(err))
    except BaseException as err:
        return Outcome(number, "defect", f"{type(err).__name__}: {err}")
    return Outcome(number, "imported")
