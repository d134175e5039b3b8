# SPDX-License-Identifier: Apache-2.0
from arm_ext.report.npu import NpuRegion, mac_share


def _region(*sources: str, macs: int) -> NpuRegion:
    return NpuRegion(
        index=0,
        sources=sources,
        operators=(),
        macs=macs,
        cycles=0,
        npu_cycles=0,
        npu_us=0,
        cpu_us=0,
        memories=(),
        layers=(),
        borders=(),
    )


def test_the_share_of_macs_is_of_the_models_own_count() -> None:
    """Vela counts those of a pool as well."""
    macs = {"conv": 900, "dense": 100}
    assert mac_share([_region("conv", "pool", macs=903)], macs) == 0.9
    assert mac_share([_region("conv", "pool", macs=903), _region("dense", macs=100)], macs) == 1
    assert mac_share([], macs) == mac_share([_region("pool", macs=3)], {}) == 0
