# SPDX-License-Identifier: Apache-2.0
"""The record of `certify`: what a model computes on each instruction-set level and number of threads."""

import hashlib
import json
from collections.abc import Iterator
from html import escape
from typing import Literal, Self

from pydantic import Field

from arm_ext.common.json_record import ClosedJsonRecord
from arm_ext.common.text import columns, counted
from arm_ext.report.html.embed import page_style

Outcome = Literal["equal", "close", "differs", "fails", "not run"]

PROVES = (
    "On these inputs, the code of each level gave these outputs under an emulator, on each number of threads: integers "
    "equal to the bit, floats equal or within the bound of the self-test."
)
PROVES_NOT = (
    "Other inputs, what a core's silicon does, and levels that are marked as not run. The emulator is QEMU; where it "
    "is wrong about an instruction, so may be this."
)


class CertifiedLevel(ClosedJsonRecord):
    """An instruction-set level and the program that runs there."""

    name: str = Field(description="Name of the level, or of a profile.")
    target: str = Field(description="Profile that the program was compiled for.")
    features: tuple[str, ...] = Field(description="Features that the program may use.")
    cpu: str = Field(description="CPU that was emulated.")
    so_sha256: str = Field(default="", description="SHA-256 of model.so; empty if it could not be compiled.")


class CertifiedRun(ClosedJsonRecord):
    """What one level computed on a number of threads."""

    level: str = Field(description="Name of the level.")
    threads: int = Field(description="Number of threads.")
    outcome: Outcome = Field(
        description="equal: all bits are those of the reference; close: floats within their bound of it; differs; "
        "fails: the program ended; not run: the emulator or the level lacks something."
    )
    difference: float = Field(
        default=0.0,
        description="Largest difference to the reference, of floats relative to the largest number of its output.",
    )
    reason: str = Field(default="", description="What differs, fails or lacks.")
    layer: str = Field(default="", description="First layer that differs, where it could be found.")


class Certificate(ClosedJsonRecord):
    """What a model computes on each level, with the hash of all of it."""

    schema_version: Literal[1] = Field(default=1, description="Version of this form.")
    kind: Literal["certificate"] = Field(default="certificate", description="What the document is.")
    model: str = Field(description="Name of the model.")
    versions: dict[str, str] = Field(description="Program → version, of those that compiled and emulated.")
    samples: int = Field(
        description="Number of inputs: those of the self-test, its steps, and the samples given."
    )
    inputs_sha256: str = Field(description="SHA-256 of the inputs.")
    outputs_sha256: str = Field(description="SHA-256 of the reference's outputs.")
    reference: str = Field(
        description="Level whose outputs on one thread are the reference; empty if none is right."
    )
    levels: tuple[CertifiedLevel, ...] = Field(
        description="The levels, in the order in which they were asked for."
    )
    runs: tuple[CertifiedRun, ...] = Field(description="A run for each level and number of threads.")
    proves: str = Field(default=PROVES, description="What the runs show.")
    proves_not: str = Field(default=PROVES_NOT, description="What they do not show.")
    sha256: str = Field(default="", description="SHA-256 of this document without this field.")

    def signed(self) -> Self:
        """Return the certificate with its hash."""
        return self.model_copy(update={"sha256": self._hash()})

    @property
    def is_intact(self) -> bool:
        """Whether the hash is that of the rest."""
        return self.sha256 == self._hash()

    @property
    def holds(self) -> bool:
        """Whether no run differs or fails, and one ran."""
        outcomes = {run.outcome for run in self.runs}
        return not outcomes & {"differs", "fails"} and bool(outcomes - {"not run"})

    def certifies(self, so_sha256: str) -> tuple[str, ...]:
        """Return the levels at which a model.so was run with good results on every number of threads."""
        bad = {run.level for run in self.runs if run.outcome not in ("equal", "close")}
        return tuple(
            level.name for level in self.levels if level.so_sha256 == so_sha256 and level.name not in bad
        )

    def _hash(self) -> str:
        document = json.dumps(self.model_dump(mode="json", exclude={"sha256"}), sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()

    def text(self) -> str:
        """Return a table of levels and threads, with what differs below it."""
        told = list(self._told())
        table = columns([self._heads(), *((*row[:3], *map(_cell, row[3])) for row in self._rows())])
        return "\n".join([*table, "", *told, *([""] if told else []), self.verdict()])

    def html(self) -> str:
        """Return the certificate as a page that needs no network."""
        heads = "".join(f"<th>{escape(head)}</th>" for head in self._heads())
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[:3])
            + "".join(f'<td class="{run.outcome.replace(" ", "-")}">{_cell(run)}</td>' for run in row[3])
            + "</tr>"
            for row in self._rows()
        )
        told = "".join(f"<li>{escape(line)}</li>" for line in self._told())
        hashes = {"inputs": self.inputs_sha256, "outputs": self.outputs_sha256, "certificate": self.sha256}
        facts = {**self.versions, **{f"SHA-256 of {of}": value for of, value in hashes.items()}}
        listed = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in facts.items()
        )
        title = f"Certificate of {escape(self.model)}"
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width">'
            f"<style>{page_style()}{_STYLE}</style></head><body><main><h1>{title}</h1><p>{escape(self.verdict())}</p>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table><ul>{told}</ul>"
            f"<h2>What that shows</h2><p>{PROVES}</p><h2>What it does not</h2><p>{PROVES_NOT}</p>"
            f"<h2>Made by</h2><table><tbody>{listed}</tbody></table></main></body></html>\n"
        )

    def _heads(self) -> tuple[str, ...]:
        threads = sorted({run.threads for run in self.runs})
        return ("level", "compiled for", "emulated CPU", *(counted(number, "thread") for number in threads))

    def _rows(self) -> "Iterator[tuple[str, str, str, list[CertifiedRun]]]":
        """Yield the level, its target, its CPU and its runs, the fewest threads first."""
        for level in self.levels:
            runs = sorted((run for run in self.runs if run.level == level.name), key=lambda run: run.threads)
            yield level.name, level.target, level.cpu, runs

    def _told(self) -> "Iterator[str]":
        yield from dict.fromkeys(_told(run) for run in self.runs if run.reason)

    def verdict(self) -> str:
        """Return one line: whether the model is certified, on how many inputs, and how many runs agree."""
        counts = {outcome: sum(run.outcome == outcome for run in self.runs) for outcome in ("equal", "close")}
        ran = sum(run.outcome != "not run" for run in self.runs)
        on = f"on {counted(self.samples, 'input')}"
        if not self.holds:
            bad = dict.fromkeys(run.level for run in self.runs if run.outcome in ("differs", "fails"))
            return f"NOT certified {on}: {', '.join(bad) or 'nothing ran'}"
        parts = [f"{counts['equal']} of {ran} runs equal to the bit"]
        parts += [f"{counts['close']} with floats within their bound"] if counts["close"] else []
        skipped = dict.fromkeys(run.level for run in self.runs if run.outcome == "not run")
        parts += [f"not run: {', '.join(skipped)}"] if skipped else []
        return f"Certified {on}: {'; '.join(parts)}"


_STYLE = """
.equal { background: color-mix(in srgb, var(--better) 30%, transparent); }
.close { background: color-mix(in srgb, var(--better) 14%, transparent); }
.differs, .fails { background: color-mix(in srgb, var(--worse) 40%, transparent); }
.not-run { color: var(--faint); }
table { width: auto; }
td { white-space: normal; overflow-wrap: anywhere; }
"""


def _cell(run: CertifiedRun) -> str:
    if run.outcome == "close":
        return f"{run.difference:.1e}"
    return run.outcome.upper() if run.outcome in ("differs", "fails") else run.outcome


def _told(run: CertifiedRun) -> str:
    where = run.level if run.outcome == "not run" else f"{run.level}, {counted(run.threads, 'thread')}"
    return f"{where}: {run.reason}" + (f"; first at layer {run.layer}" if run.layer else "")
