# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.errors import ModelError
from arm_ext.llm.chat import render

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


def test_a_conversation():
    template = (
        "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}{{ eos_token }}\n"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    text = render(template, MESSAGES, {"bos_token": "<s>", "eos_token": "</s>"})
    assert text == "<s><|system|>Be brief.</s>\n<|user|>Why?</s>\n<|assistant|>"


FAULTS = {
    "asks for attributes": ("{{ messages.__class__.__mro__ }}", "SecurityError|access to attribute"),
    "raises": ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
    "is no template": ("{% for %}", "TemplateSyntaxError"),
    "loops": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "2 s of CPU|Killed",
    ),
    "fills memory": ("{{ 'a' * 10 ** 10 }}", "MemoryError|OverflowError"),
    "writes without end": ("{% for a in range(99999) %}{{ 'abcdefghijklmnop' }}{% endfor %}", "characters"),
    "changes its input": ("{{ messages.append(1) }}", "SecurityError"),
    "reads files": ("{% include '/etc/passwd' %}", "no loader"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_templates_that_fail(name: str):
    template, message = FAULTS[name]
    with pytest.raises(ModelError, match=message):
        render(template, MESSAGES, {})
