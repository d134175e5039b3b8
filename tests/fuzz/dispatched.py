# SPDX-License-Identifier: Apache-2.0
"""A case whose regions are offered to an NPU that is not there: it must compute what it does undivided."""

from collections import Counter

import numpy as np

from arm_ext.ethosu.partition.phase import offer_of, part_of
from arm_ext.ethosu.partition.read import read
from arm_ext.native.build import npu_runtime
from arm_ext.pipeline.phases import PhaseResult
from arm_ext.target.npu import ACCELERATORS
from relay_passes import outline
from tests.fuzz.compiled import Outcome
from tests.fuzz.graphs import Case
from tests.fuzz.npu import integer_graph, offloader, run_integers

NPU = "ethos-u85-512"  # that takes most
REGIONS = "regions"


def outcome_of(case: Case) -> Outcome:
    """Divide and run a case; definitions count its regions."""
    if not case.runs:
        return Outcome(None, Counter(), Counter())
    mod, options = integer_graph(case.model)
    regions = offloader(ACCELERATORS[NPU]).divide(read(mod)).regions
    named = {f"fallback_{i}": region for i, region in enumerate(regions)}
    offers = {name: offer_of(i, "fail", region) for i, (name, region) in enumerate(named.items())}
    divided = outline(mod, [part_of(name, region) for name, region in named.items()])
    runtime = [npu_runtime(options.profile.triple).read_bytes()]
    found = run_integers(PhaseResult(divided, offers=offers), options, case.inputs, runtime)
    expected = run_integers(PhaseResult(mod), options, case.inputs)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            return Outcome(f"output {number} of the divided graph differs", Counter(), Counter())
    return Outcome(None, Counter(), Counter({REGIONS: len(regions)}))
