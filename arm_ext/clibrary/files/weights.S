<# SPDX-License-Identifier: Apache-2.0 #>
/* Weights, as they are in @file@. */
    .section .rodata.@symbol@,"a",%progbits
    .balign @alignment@
    .globl @symbol@
    .hidden @symbol@
    .type @symbol@, %object
@symbol@:
    .incbin "@file@"
    .size @symbol@, . - @symbol@
    .section .note.GNU-stack,"",%progbits
