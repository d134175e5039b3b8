// SPDX-License-Identifier: Apache-2.0
// What C libraries call to run regions; npu_entries.cc is the same for packages.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_runtime.h"

namespace {

// A C library has a code for a failure; its text is kept for the status.
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
arm_ext::Failure last;

int Fail(const arm_ext::Failure& failure) {
  pthread_mutex_lock(&lock);
  last = failure;
  pthread_mutex_unlock(&lock);
  return -1;
}

}  // namespace

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
  if (input_count > kMaxTensors || output_count > kMaxTensors - input_count) {
    return Fail(Failed(Scope::kCall, "region %lld has more than %d inputs and outputs",
                       static_cast<long long>(number), static_cast<int>(kMaxTensors)));
  }
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
  if (Failure failure = Run(call, &ran)) return Fail(failure);
  return ran;
}

/*! \brief Which regions ran where, and the last error, as JSON; to be freed. */
ARM_EXT_ENTRY char* arm_ext_npu_linux_status() {
  char* text = arm_ext::Status();
  if (text == nullptr) return nullptr;
  pthread_mutex_lock(&lock);
  const arm_ext::Failure error = last;
  pthread_mutex_unlock(&lock);
  const size_t end = strlen(text) - 1;  // of the closing brace
  constexpr size_t kRoom = sizeof(error.text) + 32;
  char* longer = static_cast<char*>(realloc(text, end + kRoom));
  if (longer == nullptr) {
    free(text);
    return nullptr;
  }
  if (error) {
    snprintf(longer + end, kRoom, ",\"error\":\"%s\"}", error.text);
  } else {
    snprintf(longer + end, kRoom, ",\"error\":null}");
  }
  return longer;
}
