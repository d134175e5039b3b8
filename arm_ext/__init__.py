# SPDX-License-Identifier: Apache-2.0
"""Compile models for Arm with TVM, and run them on boards.

The functions mirror the commands one to one; each is imported when it is first used, since TVM takes a second.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Otherwise the import of onnxruntime starts a thread that sends telemetry, and writes a database to the user's
# cache folder and a file to TMPDIR.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from arm_ext.common.version import __version__
from arm_ext.common.without_torch import without_torch

if TYPE_CHECKING:
    from arm_ext.api.accuracy import AccuracyOptions, accuracy
    from arm_ext.api.advise import advise
    from arm_ext.api.advise_npu import advise_npu
    from arm_ext.api.bench import bench
    from arm_ext.api.cache import CacheContents, cache_contents, clear_cache
    from arm_ext.api.certify import certify
    from arm_ext.api.compare import compare
    from arm_ext.api.compile import CompileResult, compile
    from arm_ext.api.compile_library import LibraryModel, LibraryResult, compile_library
    from arm_ext.api.doctor import Diagnosis, diagnose
    from arm_ext.api.explain import explain
    from arm_ext.api.export_payload import ExportReport, export_payload
    from arm_ext.api.llm import LlmResult, compile_llm, run_llm
    from arm_ext.api.options import Options
    from arm_ext.api.profile import profile
    from arm_ext.api.quantize import QuantizeOptions, QuantizeResult, quantize
    from arm_ext.api.run import RunResult, run
    from arm_ext.api.schema import schema
    from arm_ext.api.tune import TuneOptions, tune_model
    from arm_ext.api.verify import VerifyReport, verify
    from arm_ext.board import Board, open_board
    from arm_ext.common.errors import ArmExtError, EnvError, InternalError, ModelError, UsageError
    from arm_ext.ethosu.options import NpuOptions
    from arm_ext.frontends.common.custom import CustomOp
    from arm_ext.frontends.preprocess.options import Preprocess
    from arm_ext.measure.peers.comparison import Comparison
    from arm_ext.measure.profile import CountReport
    from arm_ext.measure.threads import ThreadReport
    from arm_ext.measure.times import TimeReport
    from arm_ext.package import Package, load_package
    from arm_ext.report.accuracy.record import AccuracyReport
    from arm_ext.report.advice.npu.record import NpuAdvice
    from arm_ext.report.advice.record import AdviceReport
    from arm_ext.report.certificate import Certificate
    from arm_ext.report.explanation import ExplainReport
    from arm_ext.report.profile.record import ProfileReport
    from arm_ext.tune.report import TuneReport

__all__ = [
    "AccuracyOptions",
    "AccuracyReport",
    "AdviceReport",
    "ArmExtError",
    "Board",
    "CacheContents",
    "Certificate",
    "Comparison",
    "CompileResult",
    "CountReport",
    "CustomOp",
    "Diagnosis",
    "EnvError",
    "ExplainReport",
    "ExportReport",
    "InternalError",
    "LibraryModel",
    "LibraryResult",
    "LlmResult",
    "ModelError",
    "NpuAdvice",
    "NpuOptions",
    "Options",
    "Package",
    "Preprocess",
    "ProfileReport",
    "QuantizeOptions",
    "QuantizeResult",
    "RunResult",
    "ThreadReport",
    "TimeReport",
    "TuneOptions",
    "TuneReport",
    "UsageError",
    "VerifyReport",
    "__version__",
    "accuracy",
    "advise",
    "advise_npu",
    "bench",
    "cache_contents",
    "certify",
    "clear_cache",
    "compare",
    "compile",
    "compile_library",
    "compile_llm",
    "diagnose",
    "explain",
    "export_payload",
    "load_package",
    "open_board",
    "profile",
    "quantize",
    "run",
    "run_llm",
    "schema",
    "tune_model",
    "verify",
]

_HOMES = {
    "arm_ext.report.advice.record": ("AdviceReport",),
    "arm_ext.api.advise": ("advise",),
    "arm_ext.report.advice.npu.record": ("NpuAdvice",),
    "arm_ext.api.advise_npu": ("advise_npu",),
    "arm_ext.board": ("Board", "open_board"),
    "arm_ext.api.accuracy": ("AccuracyOptions", "accuracy"),
    "arm_ext.report.accuracy.record": ("AccuracyReport",),
    "arm_ext.api.certify": ("certify",),
    "arm_ext.report.certificate": ("Certificate",),
    "arm_ext.api.cache": ("CacheContents", "cache_contents", "clear_cache"),
    "arm_ext.api.compile": ("CompileResult", "compile"),
    "arm_ext.api.compile_library": ("LibraryModel", "LibraryResult", "compile_library"),
    "arm_ext.frontends.common.custom": ("CustomOp",),
    "arm_ext.api.doctor": ("Diagnosis", "diagnose"),
    "arm_ext.common.errors": ("ArmExtError", "EnvError", "InternalError", "ModelError", "UsageError"),
    "arm_ext.ethosu.options": ("NpuOptions",),
    "arm_ext.api.explain": ("explain",),
    "arm_ext.api.llm": ("LlmResult", "compile_llm", "run_llm"),
    "arm_ext.report.explanation": ("ExplainReport",),
    "arm_ext.frontends.preprocess.options": ("Preprocess",),
    "arm_ext.api.bench": ("bench",),
    "arm_ext.measure.profile": ("CountReport",),
    "arm_ext.measure.threads": ("ThreadReport",),
    "arm_ext.measure.times": ("TimeReport",),
    "arm_ext.api.export_payload": ("ExportReport", "export_payload"),
    "arm_ext.package": ("Package", "load_package"),
    "arm_ext.api.compare": ("compare",),
    "arm_ext.measure.peers.comparison": ("Comparison",),
    "arm_ext.api.profile": ("profile",),
    "arm_ext.report.profile.record": ("ProfileReport",),
    "arm_ext.api.quantize": ("QuantizeOptions", "QuantizeResult", "quantize"),
    "arm_ext.api.run": ("RunResult", "run"),
    "arm_ext.api.schema": ("schema",),
    "arm_ext.tune.report": ("TuneReport",),
    "arm_ext.api.options": ("Options",),
    "arm_ext.api.tune": ("TuneOptions", "tune_model"),
    "arm_ext.api.verify": ("VerifyReport", "verify"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            with without_torch():  # only a program that compiles a PyTorch model needs torch
                found = getattr(importlib.import_module(home), name)
            if not isinstance(found, type):
                # A function of the API; its errors are also worded for the command line, which calls it.
                found = importlib.import_module("arm_ext.api.wording").speaks_python(found)
            globals()[name] = found  # every import must return the same object
            return found
    raise AttributeError(f"module 'arm_ext' has no attribute {name!r}")
