# SPDX-License-Identifier: Apache-2.0
"""Constants and kernels that are equal in several models of one library, which stores them once.

What the same models have in common is one object of the library. So a program that calls some of the models is linked
with what these need alone.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from tvm import tirx
from tvm_ffi import StructuralKey

from arm_ext.clibrary.program import ConstantPool, TensorPlace
from arm_ext.clibrary.text import identifiers

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Shared:
    """Constants and kernels that one set of a library's models shares.

    Attributes:
        name: Prefix of the symbols.
        constants: The constants that all of these models read.
        kernels: Symbol → kernel, for the kernels that all of these models call.
    """

    name: str
    constants: ConstantPool
    kernels: Mapping[str, tirx.PrimFunc]

    @property
    def symbol(self) -> str:
        """Symbol of the constants in C."""
        return f"{self.name}_weights"

    @cached_property
    def weights(self) -> bytes:
        """The constants as bytes."""
        return b"".join(self.constants.parts)


@dataclass(frozen=True)
class Group:
    """The constants and kernels that a model shares with other models of its library.

    Attributes:
        archive: Name of the library.
        shared: `TensorPlace.index` of shared constants → the parts of the library that hold them.
        symbols: Kernel of the model → its symbol, for the kernels that other models call, too.
        file: Constants of all models if they are stored in a file; None if they are in the library.
    """

    archive: str
    shared: Mapping[int, Shared] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    file: ConstantPool | None = None

    @property
    def places(self) -> dict[bytes, TensorPlace]:
        """Bytes of each shared constant → its location."""
        return {
            value: TensorPlace("shared", offset, index)
            for index, each in self.shared.items()
            for value, offset in each.constants.offsets.items()
        }


def groups_of(
    archive: str,
    names: Sequence[str],
    constants: Sequence[ConstantPool],
    kernels: Sequence[Mapping[str, tirx.PrimFunc]],
) -> list[Group]:
    """Return, for each model, the constants and kernels that it shares with other models.

    Args:
        archive: Name of the library.
        names: Names of the models in C.
        constants: Constants of each model.
        kernels: Name → kernel, for each model.
    """
    keys = [{name: _key(func) for name, func in each.items()} for each in kernels]
    readers = _owners(each.offsets for each in constants)
    callers = _owners(each.values() for each in keys)
    sets = [models for models in dict.fromkeys((*readers.values(), *callers.values())) if len(models) > 1]
    shared: dict[frozenset[int], Shared] = {}
    symbols: dict[StructuralKey, str] = {}
    for models, prefix in zip(sets, identifiers([f"{archive}_shared"] * len(sets), names), strict=True):
        common = ConstantPool(constants[0].alignment)
        for value in (value for value, owners in readers.items() if owners == models):
            common.add(value)
        first = min(models)
        called = {key: name for name, key in keys[first].items() if callers[key] == models}
        own = dict(zip(called, (f"{prefix}_k_{each}" for each in identifiers(called.values())), strict=True))
        funcs = {own[key]: kernels[first][name] for key, name in called.items()}
        shared[models] = Shared(prefix, common, funcs)
        symbols |= own
    return [
        Group(
            archive,
            {index: shared[models] for index, models in enumerate(sets) if number in models},
            {name: symbols[key] for name, key in of_model.items() if key in symbols},
        )
        for number, of_model in enumerate(keys)
    ]


def _key(func: tirx.PrimFunc) -> StructuralKey:
    """Return a key that is equal for equal kernels of any name."""
    return StructuralKey(func.with_attr("global_symbol", ""))


def _owners(models: Iterable[Iterable[_T]]) -> dict[_T, frozenset[int]]:
    """Return, for each item (a constant or kernel), the indices of the models that contain it."""
    found: dict[_T, set[int]] = {}
    for number, things in enumerate(models):
        for thing in things:
            found.setdefault(thing, set()).add(number)
    return {thing: frozenset(numbers) for thing, numbers in found.items()}
