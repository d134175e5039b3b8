// SPDX-License-Identifier: Apache-2.0
#ifndef ARM_EXT_NATIVE_NPU_STREAM_H_
#define ARM_EXT_NATIVE_NPU_STREAM_H_

#include <stddef.h>
#include <stdint.h>

#include "npu_abi.h"

namespace arm_ext {

/*! \brief A command stream without its container, and what it was made for. */
struct Stream {
  const uint8_t* data;
  uint32_t bytes;  // a multiple of 4
  uint32_t config, arch;
};

/*! \brief Takes a stream out of a COP1 or COP2 container; false if it is neither, or ends early. */
bool Unwrap(const uint8_t* container, size_t size, Stream* stream);

/*! \brief What Linux's driver makes of a stream. */
struct DriverView {
  uint64_t sizes[abi::kRegions] = {};  // bytes of each region that it believes to be used
  uint32_t written = 0;                // regions, a bit each; only these can be waited for
  uint32_t indices = 0;                // regions that a DMA reads indices in, which it does not see
  bool resizes = false;  // there is a RESIZE, at which it warns that it does not know it
};

/*!
 * \brief What the driver will make of a stream behind the commands of `Preamble`.
 *
 * A job must have a buffer of that size for each used region, and for no other.
 */
DriverView LookOver(const uint8_t* commands, uint32_t bytes, uint32_t region);

/*!
 * \brief Commands that give registers a value before a stream does.
 *
 * The driver refuses a stream in which an operation finds the place of a feature map unset, though
 * the operation may have a scalar or a chained feature map there. The NPU does not mind.
 */
constexpr uint32_t kPreambleWords = 45;
void Preamble(uint32_t region, uint32_t (&words)[kPreambleWords]);

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_STREAM_H_
