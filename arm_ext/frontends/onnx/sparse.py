# SPDX-License-Identifier: Apache-2.0
"""Conversion of sparse initialisers to dense ones, since all later steps read only dense ones.

values [5, 6], indices [0, 3], dims [2, 2]    →    [[5, 0], [0, 6]]
"""

from collections.abc import Iterator

import numpy as np
from onnx import GraphProto, ModelProto, SparseTensorProto, TensorProto, numpy_helper

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.limits import check_tensor
from arm_ext.frontends.onnx.partition import subgraphs


def make_dense(model: ModelProto) -> None:
    """Replace sparse initialisers by dense ones, in place, in branches and loops, too.

    Raises:
        UsageError: The indices of one contradict its dims; the message names it.
        ModelError: One is larger than this machine's memory.
    """
    for graph in _graphs(model.graph):
        graph.initializer.extend(map(_dense, graph.sparse_initializer))
        graph.ClearField("sparse_initializer")


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _dense(sparse: SparseTensorProto) -> TensorProto:
    name, dims = sparse.values.name, list(sparse.dims)
    of = f"sparse initializer '{name}'"
    values = numpy_helper.to_array(sparse.values)
    check_tensor(of, "it", dims, values.itemsize)
    indices = numpy_helper.to_array(sparse.indices).astype(np.int64)
    if indices.shape not in ((values.size,), (values.size, len(dims))):
        raise UsageError(
            f"{of} has {values.size} values and indices of the shape {list(indices.shape)}: expected 1 or "
            f"{len(dims)} indices per value"
        )
    limits = np.array([int(np.prod(dims))] if indices.ndim == 1 else dims)
    rows = indices.reshape(values.size, len(limits))
    if len(wrong := rows[((rows < 0) | (rows >= limits)).any(axis=1)]):
        raise UsageError(f"{of} has the index {wrong[0].tolist()}, which is out of range of its dims {dims}")
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(rows.T), dims)
    if len(np.unique(flat)) < len(flat):
        raise UsageError(f"{of} has two values of the same index")
    dense = np.zeros(int(np.prod(dims)), values.dtype)
    dense[flat] = values.reshape(-1)
    return numpy_helper.from_array(dense.reshape(dims), name)
