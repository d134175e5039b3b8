// SPDX-License-Identifier: Apache-2.0
// What C libraries call to run regions; npu_entries.cc is the same for packages.
#include "npu_runtime.h"

/*!
 * \brief Runs a region of a C library on the NPU: 1 if the outputs are written, 0 if the CPU has to
 * compute them, and less if neither should. A region is known by its payload's address, of which
 * the bytes must not change.
 */
ARM_EXT_ENTRY int arm_ext_npu_linux_run(int64_t number, int insists, const uint8_t* payload,
                                        size_t payload_bytes, const void* const* inputs,
                                        size_t input_count, void* const* outputs,
                                        size_t output_count) {
  using namespace arm_ext;
  if (input_count > kMaxTensors || output_count > kMaxTensors - input_count) return -1;
  uint8_t* data[kMaxTensors];
  for (size_t i = 0; i < input_count; ++i) {
    data[i] = static_cast<uint8_t*>(const_cast<void*>(inputs[i]));
  }
  for (size_t i = 0; i < output_count; ++i) {
    data[input_count + i] = static_cast<uint8_t*>(outputs[i]);
  }
  int32_t count = static_cast<int32_t>(input_count + output_count);
  Call call = {number, payload, insists != 0, payload, payload_bytes, nullptr, data, count};
  bool ran;
  if (Failure failure = Run(call, &ran)) return -1;
  return ran;
}

/*! \brief Which regions ran where, as JSON; to be freed. */
ARM_EXT_ENTRY char* arm_ext_npu_linux_status() { return arm_ext::Status(); }
