# SPDX-License-Identifier: Apache-2.0
"""Chat templates, which come with a model from anybody: rendered in a sandbox, in a process with limits.

Jinja's sandbox keeps a template from Python's objects, but not from filling memory or running for hours. The process
has two seconds of CPU time and 512 MB of address space.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from arm_ext.common.errors import ModelError

Message = Mapping[str, str]
"""A message with "role" and "content"."""

_SECONDS, _BYTES, _TEXT = 2, 1 << 29, 1 << 20
"""Limits of a rendering: CPU seconds, address space, characters of the result."""

_WAIT = 60
"""Seconds on the clock, for a machine whose cores are busy: a template that loops ends by its CPU time."""


def render(template: str, messages: Sequence[Message], special: Mapping[str, str]) -> str:
    """Return a conversation as text that the model continues.

    Args:
        template: The model's template, as transformers defines them.
        messages: The conversation.
        special: Further names that the template may read, such as bos_token.

    Raises:
        ModelError: The template fails, or exceeds a limit.
    """
    job = json.dumps({"template": template, "messages": list(map(dict, messages)), "special": dict(special)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "arm_ext.llm.chat"],
            input=job,
            capture_output=True,
            text=True,
            timeout=_WAIT,
            preexec_fn=_limited,
            check=False,
        )
    except subprocess.TimeoutExpired as err:
        raise ModelError(
            f"the model's chat template does not end within {_WAIT} s; give the text without --chat"
        ) from err
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"it exceeds {_SECONDS} s of CPU time or 512 MB"]
        raise ModelError(f"the model's chat template fails: {reason[0]}; give the text without --chat")
    return done.stdout


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))


def _render(job: Mapping[str, Any]) -> str:
    """Render a template in this process."""
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    names = {"messages": job["messages"], "add_generation_prompt": True, **job["special"]}
    parts, length = [], 0
    for part in environment.from_string(job["template"]).generate(names):
        parts.append(part)
        length += len(part)
        if length > _TEXT:
            raise TemplateError(f"its text has more than {_TEXT:,} characters")
    return "".join(parts)


def _main() -> None:
    try:
        sys.stdout.write(_render(json.load(sys.stdin)))
    except Exception as err:
        sys.exit(f"{type(err).__name__}: {err}")


if __name__ == "__main__":
    _main()
