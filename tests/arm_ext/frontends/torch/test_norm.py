# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation that trains: outputs and running statistics are torch's, with any momentum."""

import numpy as np
import pytest
import torch
from torch import nn

from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.torch.compared import BOUND


@pytest.mark.parametrize(("momentum", "trains"), [(0.3, True), (-1.0, True), (-1.0, False)])
def test_statistics_are_those_of_torch(momentum: float, trains: bool) -> None:
    """As states of the model, which the first run reads and changes; without training they stay."""
    torch.manual_seed(0)
    model = nn.BatchNorm2d(7, momentum=momentum).train(trains)
    nn.init.normal_(model.running_mean)
    x = torch.randn(2, 7, 3, 1)
    imported = import_torch(torch.export.export(model, (x,)))
    given = [x.numpy(), *(state.initial for state in imported.states)]
    found = dict(
        zip([output.name for output in imported.outputs], run_on_host(imported.mod, given), strict=True)
    )
    with torch.no_grad():
        wanted = {imported.outputs[0].name: model(x)}
    if trains:
        wanted |= {f"{name}.next": value for name, value in model.named_buffers()}
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value.numpy(), rtol=2e-6, atol=BOUND, err_msg=name)
