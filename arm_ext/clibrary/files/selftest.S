<# SPDX-License-Identifier: Apache-2.0 #>
/* The inputs of the self-test and the outputs that arm-ext computed for them, as the self-test reads them. */
    .section .rodata.selftest,"a",%progbits
    .balign 64
    .globl @name@_selftest
@name@_selftest:
    .incbin "@data@.bin"
<% if weights_in_file and not group %>
    .balign @alignment@
    .globl @name@_weights_file
@name@_weights_file:
    .incbin "../@name@.weights"
<% endif %>
    .section .note.GNU-stack,"",%progbits
