# SPDX-License-Identifier: Apache-2.0
"""Constants that several front ends need."""

# Cephes, atanf: the polynomial for |x| ≤ tan(pi / 8), from its highest power, in x² and times x³.
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
