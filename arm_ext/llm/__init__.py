# SPDX-License-Identifier: Apache-2.0
"""Text around a compiled decoder: tokenizer, chat template, sampling, generation."""
