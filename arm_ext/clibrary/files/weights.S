/* The weights of @name@, as they are in @file@. */
    .section .rodata.@name@_weights,"a",%progbits
    .balign @alignment@
    .globl @name@_weights
    .hidden @name@_weights
    .type @name@_weights, %object
@name@_weights:
    .incbin "@file@"
    .size @name@_weights, . - @name@_weights
    .section .note.GNU-stack,"",%progbits
