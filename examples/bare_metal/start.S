/* SPDX-License-Identifier: Apache-2.0
 * Start-up of an aarch64 program at EL1 without an operating system.
 *
 * Vector code reads and writes at any address, which memory allows only while the MMU is on: so one table maps the
 * first gigabyte as devices, and the second, where QEMU's `virt` has its memory, as cached memory. */
    .section .text.start, "ax"
    .globl _start
_start:
    mrs x0, mpidr_el1           // one core runs
    tst x0, #0xff
    b.ne sleep
    ldr x0, =stack_end
    mov sp, x0
    mov x0, #(3 << 20)          // CPACR_EL1.FPEN: no trap of vector instructions
    msr cpacr_el1, x0
    ldr x0, =bss_begin
    ldr x1, =bss_end
1:  cmp x0, x1
    b.hs 2f
    str xzr, [x0], #8
    b 1b
2:  ldr x0, =0xff00             // MAIR_EL1: 0 are devices, 1 is memory, write-back
    msr mair_el1, x0
    ldr x0, =0x100803519        // TCR_EL1: 39 bits, 4 KiB pages, walks cached, inner shareable, no upper half, 36 bits
    msr tcr_el1, x0
    ldr x0, =table
    msr ttbr0_el1, x0
    isb
    mrs x0, sctlr_el1
    mov x1, #0x1005             // M, C and I: MMU and caches
    orr x0, x0, x1
    msr sctlr_el1, x0
    isb
    bl main
    b leave

/* Ends the emulator with the status in w0. */
    .globl leave
leave:
    adr x1, block
    ldr x2, =0x20026            // ADP_Stopped_ApplicationExit
    sxtw x0, w0
    stp x2, x0, [x1]
    mov w0, #0x18               // SYS_EXIT of semihosting
    hlt #0xf000
sleep:
    wfe
    b sleep

/* Prints the text at x0. */
    .globl print
print:
    mov x1, x0
    mov w0, #0x04               // SYS_WRITE0
    hlt #0xf000
    ret

    .section .data.start, "aw"
    .balign 4096
table:                          // of a gigabyte each
    .quad 0x0060000000000401    // at 0: a device, not executed
    .quad 0x0000000040000705    // at 0x40000000: memory
    .fill 510, 8, 0
block:
    .quad 0, 0
