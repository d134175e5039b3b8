# SPDX-License-Identifier: Apache-2.0
"""Advice as text, and the recommended options as a file for `compile --config`."""

import textwrap

import yaml

from arm_ext.common.text import clipped, columns
from arm_ext.report.advice.record import (
    SPENT,
    Advice,
    AdviceReport,
    Alternative,
    CostlyCall,
    LayerAlternative,
)

_NAME = 40
"""Columns of a source node's name."""
_WIDTH = 118
_OTHERS = 2
"""Next best kernels beside one."""


def text(report: AdviceReport) -> str:
    """Return the model's cost, the recommendations, each alternative, and changes that only the author can make."""
    head = [
        f"{report.model} for {report.target}, on board {report.board}",
        f"one inference  {_amount(report.cost, report.unit)} on {report.core}",
    ]
    parts = [
        "\n".join(head),
        _recommended(report),
        _alternatives(report),
        _layers(report) if report.layers else "",
        _changes(report),
        _calls(report) if report.calls else "",
        _declined(report) if report.declined else "",
        _wrapped(report.note),
    ]
    return "\n\n".join(filter(None, parts))


def config(report: AdviceReport) -> str:
    """Return the recommended options as YAML, with their measured gain."""
    about = (
        f"{_percent(report.gain)} less, error at the outputs {report.error:.1e}"
        if report.recommended
        else "no option that was measured makes it faster"
    )
    head = f"# {report.model} for {report.target}, measured on board {report.board}: {about}.\n"
    return head + str(yaml.safe_dump(report.given | report.recommended, sort_keys=False))


def _alternatives(report: AdviceReport) -> str:
    if not report.alternatives:
        return "options of compile: none could apply"
    head = ("", "option", "costs", "predicted gain", "gain", "error", "")
    rows = [head, *(_alternative(each, report.unit) for each in report.alternatives)]
    return "\n".join(["options of compile, each built and measured:", *columns(rows, "<<>>>>")])


def _alternative(found: Alternative, unit: str) -> tuple[str, ...]:
    return (
        found.name,
        " ".join(options(found.options)),
        "-" if found.cost is None else _amount(found.cost, unit),
        "-" if found.predicted is None else _percent(found.predicted),
        "-" if found.gain is None else _percent(found.gain),
        "-" if found.error is None else f"{found.error:.1e}",
        "recommended" if found.recommended else _note(found),
    )


def _layers(report: AdviceReport) -> str:
    head = ("", "layer", "now", "then", "gain", "error there", "error", "")
    rows = [head, *(_layer(each) for each in report.layers)]
    hows = [_wrapped(f"- {each.anchor}: {each.how}", "  ") for each in report.layers if each.helps]
    return "\n".join([f"single layers, in {report.unit}:", *columns(rows, "<<>>>>>"), *hows])


def _layer(found: LayerAlternative) -> tuple[str, ...]:
    return (
        found.name,
        clipped(found.anchor, _NAME),
        f"{found.now:,.0f}",
        "-" if found.cost is None else f"{found.cost:,.0f}",
        "-" if found.gain is None else _percent(found.gain),
        "-" if found.layer_error is None else f"{found.layer_error:.1e}",
        "-" if found.error is None else f"{found.error:.1e}",
        "helps" if found.helps else _note(found),
    )


def _note(found: Alternative | LayerAlternative) -> str:
    return found.note if found.status == "measured" or not found.note else f"{found.status}: {found.note}"


def options(found: dict[str, object]) -> list[str]:
    """Return options as words of a command line."""
    words: list[str] = []
    for name, value in found.items():
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name}")
        else:
            words += [f"--{name} {each}" for each in (value if isinstance(value, list) else [value])]
    return words


def _calls(report: AdviceReport) -> str:
    measured = [each for each in report.alternatives if each.calls]
    rows = [("layer", "share", "bound by", "now", *(each.name for each in measured), "kernel, next best")]
    for place, call in enumerate(report.calls):
        others = (each.calls[place] for each in measured)
        cells = ("-" if cost is None else f"{cost:,.0f}" for cost in others)
        now = (_percent(call.share), call.bound or "-", f"{call.cost:,.0f}")
        rows.append((clipped(call.anchor, _NAME), *now, *cells, _next_best(call)))
    align = f"<><{'>' * (1 + len(measured))}"
    return "\n".join([f"the costliest layers, in {report.unit}:", *columns(rows, align)])


def _next_best(call: CostlyCall) -> str:
    """Return the kernel's name, and the next best kernels with their estimated costs relative to it."""
    others = [f"{each.kernel} x{each.ratio:.2f}" for each in call.alternatives if not each.params][:_OTHERS]
    return ", ".join([call.kernel, *others])


def _recommended(report: AdviceReport) -> str:
    if report.recommended:
        said = (
            f"recommended: {' '.join(options(report.recommended))}\n"
            f"measured together: {_percent(report.gain)} less, error at the outputs {report.error:.1e}"
        )
    elif any(each.status == "measured" for each in report.alternatives):
        said = f"recommended: none; no option that was measured saves anything within an error of {report.max_error:g}"
    else:
        said = "recommended: none; no option was measured"
    return "\n".join([said, *_beyond_the_error(report), *_not_measured(report), *_best_layer(report)])


def _not_measured(report: AdviceReport) -> list[str]:
    """Return alternatives that were not measured but are predicted to save more than the recommended ones."""
    found = [
        each
        for each in report.alternatives
        if each.status == "not built" and (each.predicted or 0) > max(report.gain, 0)
    ]
    return [
        _wrapped(
            f"{each.name} is predicted to save {_percent(each.predicted or 0)}: "
            + (
                "the budget was used up before it was built; give more by --budget"
                if each.note == SPENT
                else "give calibration samples by --quantize FILE.npz to measure it"
            )
        )
        for each in found
    ]


def _best_layer(report: AdviceReport) -> list[str]:
    """Return the single layer that saves most, if it saves more than the recommendation."""
    helping = [each for each in report.layers if each.helps and (each.gain or 0) > report.gain]
    if not helping:
        return []
    best = max(helping, key=lambda each: each.gain or 0)
    return [
        _wrapped(f"{best.name} for {best.anchor} alone saves {_percent(best.gain or 0)}; see single layers")
    ]


def _beyond_the_error(report: AdviceReport) -> list[str]:
    """Return the alternatives that save more than the recommended ones and are rejected only for their error."""
    found = [
        (each.gain, each)
        for each in report.alternatives
        if each.gain is not None
        and each.error is not None
        and each.gain > max(report.gain, 0)
        and each.error > report.max_error
    ]
    if not found:
        return []
    gain, best = max(found, key=lambda pair: pair[0])
    return [
        _wrapped(
            f"{best.name} would save {_percent(gain)} with an error of {best.error:.1e}: if the accuracy on your data "
            "allows that, raise --max-error; of int8, quantize and accuracy tell which layers lose it"
        )
    ]


def _changes(report: AdviceReport) -> str:
    if not report.advice:
        return "changes of the model: none that the rules know would help"
    return "\n".join(["changes of the model:", *(_change(each) for each in report.advice)])


def _change(found: Advice) -> str:
    if found.gain is not None:
        gain = f"saves {_percent(found.gain)}, measured"
        if found.error is not None:
            gain += f" (error without training {found.error:.1e})"
    else:
        gain = f"would save {_percent(found.estimated or 0.0)}, estimated and not measured ({found.basis})"
    return _wrapped(f"- {found.rule}: {gain}. {_sentence(found.evidence)} {_sentence(found.how)}", "  ")


def _declined(report: AdviceReport) -> str:
    found = (_wrapped(f"- {each.rule}: {_sentence(each.reason)}", "  ") for each in report.declined)
    return "\n".join(["not advised:", *found])


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def _wrapped(words: str, indent: str = "") -> str:
    return textwrap.fill(words, _WIDTH, subsequent_indent=indent, break_long_words=False)


def _amount(cost: float, unit: str) -> str:
    return f"{cost:,.0f} cycles" if unit == "cycles" else f"{cost:,.1f} us"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
