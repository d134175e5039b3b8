# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from relay_passes.ir.calls import array_of, nodes_of, with_attrs
from tests.relay_passes.graphs import tensor
from tests.relay_passes.layout.nets import net


def test_with_attrs_changes_what_is_named_only():
    x = tensor("x", 1, 8, 9, 7)
    old = op.nn.max_pool2d(x, (3, 2), (2, 2), layout="NCHW", ceil_mode=True)
    new = with_attrs(old, layout="NHWC", out_layout="NHWC")
    assert (str(new.attrs.layout), str(new.attrs.out_layout)) == ("NHWC", "NHWC")
    assert (list(new.attrs.pool_size), bool(new.attrs.ceil_mode)) == ([3, 2], True)
    assert str(old.attrs.layout) == "NCHW"
    assert with_attrs(op.nn.relu(x)).attrs is None


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_the_array_of_a_constant_has_its_dtype_and_values(dtype: npt.DTypeLike, shape: tuple[int, ...]):
    value = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    found = array_of(relax.const(tvm.runtime.tensor(value)))
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


def test_tensors_in_a_tuple_stand_in_a_row():
    mod = net(lambda n, x: n.then(op.concat([x, n.then(op.nn.relu(x))], axis=1)))
    concat = nodes_of(mod["main"])[1]
    assert [value.name for value in concat.operands] == ["x", "step0"]
    put = concat.put(concat.operands[::-1], axis=2)
    assert [value.name for value in put.args[0].fields] == ["step0", "x"]
    assert int(put.attrs.axis) == 2


def test_arguments_that_are_no_tensors_stay():
    node = nodes_of(net(lambda n, x: n.then(op.strided_slice(x, [1], [0], [4])))["main"])[0]
    assert len(node.operands) == 1
    assert node.put(node.operands).args[1:] == node.call.args[1:]


@pytest.mark.parametrize("whole", [False, True])
def test_outputs_of_a_call_with_several(whole: bool):
    def body(n, x):
        parts = n.then(op.split(x, 2, axis=1))
        second = n.item(parts, 1)
        return relax.Tuple([second, parts]) if whole else n.then(op.nn.relu(second))

    def returned(n, x):
        return n.emit("out", body(n, x)) if whole else body(n, x)

    split = nodes_of(net(returned)["main"])[0]
    assert [index for index, _ in split.outputs] == ([] if whole else [1])
