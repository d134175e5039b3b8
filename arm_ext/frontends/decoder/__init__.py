# SPDX-License-Identifier: Apache-2.0
"""Language models: decoders of transformers, from GGUF files and from Hugging Face folders."""
