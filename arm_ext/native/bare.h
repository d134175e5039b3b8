// SPDX-License-Identifier: Apache-2.0
// What a program on an emulated Cortex-M has of the machine that emulates it.
#ifndef ARM_EXT_NATIVE_BARE_H_
#define ARM_EXT_NATIVE_BARE_H_

#include <stddef.h>
#include <stdint.h>

/*! \brief Opens a file of the emulator's machine; negative if that fails. */
int open_file(const char* name, int writes);

void close_file(int file);

/*! \brief Reads so many bytes; whether there were as many. */
int read_all(int file, void* data, size_t bytes);

/*! \brief Writes so many bytes; whether all were written. */
int write_all(int file, const void* data, size_t bytes);

/*! \brief Ends the emulation. */
_Noreturn void end_program(int failed);

/*! \brief Does nothing: the counting plugin watches for calls of it. */
void counting_mark(void);

#endif  // ARM_EXT_NATIVE_BARE_H_
