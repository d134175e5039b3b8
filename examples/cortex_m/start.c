/* SPDX-License-Identifier: Apache-2.0
 * Start-up of a Cortex-M without an operating system and without a C library. print and the end of the program are
 * semihosting calls (Semihosting for AArch32 and AArch64, release 2.0), which an emulator or a debugger answers. */
#include <stdint.h>

extern int main(void);
extern uint32_t bss_begin[], bss_end[], stack_end[];

#define CPACR (*(volatile uint32_t *)0xE000ED88) /* access to the coprocessors */
#define CCR (*(volatile uint32_t *)0xE000ED14)   /* configuration and control */

static void semihosting(uintptr_t operation, const void *argument)
{
    register uintptr_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void print(const char *text) { semihosting(0x04, text); /* SYS_WRITE0 */ }

static void leave(int failed)
{
    for (;;) {
        /* SYS_EXIT with ADP_Stopped_ApplicationExit, or ADP_Stopped_InternalError */
        semihosting(0x18, (const void *)(uintptr_t)(failed ? 0x20024 : 0x20026));
    }
}

__attribute__((used)) static void begin(void)
{
#ifdef __ARM_PCS_VFP
    CPACR |= 0xFu << 20; /* the FPU, and Helium */
#endif
#if __ARM_ARCH >= 8
    CCR |= 1u << 19; /* low-overhead loops of Armv8.1-M; nothing on an M33 */
#endif
    __asm volatile("dsb\n\tisb");
    for (uint32_t *word = bss_begin; word < bss_end; ++word) {
        *word = 0;
    }
    leave(main());
}

__attribute__((naked, used)) void reset(void) { __asm volatile("b begin"); }

static void fault(void)
{
    print("the core raised a fault\n");
    leave(1);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_end, (const void *)reset, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault,
};
