// SPDX-License-Identifier: Apache-2.0
#ifndef ARM_EXT_NATIVE_NPU_SETTINGS_H_
#define ARM_EXT_NATIVE_NPU_SETTINGS_H_

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "npu_failure.h"

namespace arm_ext {

enum class Mode { kAuto, kNpu, kCpu };
constexpr const char* kModes[] = {"auto", "npu", "cpu"};

// Linux's driver resets an NPU that stands still for 0.5 s, so only a queue or a long model waits
// longer.
constexpr int64_t kTimeoutMs = 10000;
constexpr int64_t kLongestTimeoutMs = 24 * 60 * 60 * 1000;

/*! \brief What the environment says: ARM_EXT_NPU and ARM_EXT_NPU_TIMEOUT_MS. */
struct Settings {
  Mode mode = Mode::kAuto;
  int64_t timeout_ms = kTimeoutMs;
};

inline Failure ReadSettings(Settings* settings) {
  const char* mode = getenv("ARM_EXT_NPU");
  if (mode != nullptr && *mode != '\0') {
    int i = 0;
    while (i < 3 && strcmp(mode, kModes[i]) != 0) ++i;
    if (i == 3) return Failed(Scope::kDevice, "ARM_EXT_NPU is neither auto, npu nor cpu");
    settings->mode = static_cast<Mode>(i);
  }
  const char* timeout = getenv("ARM_EXT_NPU_TIMEOUT_MS");
  if (timeout != nullptr && *timeout != '\0') {
    char* end;
    settings->timeout_ms = strtoll(timeout, &end, 10);
    if (*end != '\0' || settings->timeout_ms < 1 || settings->timeout_ms > kLongestTimeoutMs) {
      return Failed(Scope::kDevice, "ARM_EXT_NPU_TIMEOUT_MS is no number from 1 to %lld",
                    static_cast<long long>(kLongestTimeoutMs));
    }
  }
  return {};
}

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_SETTINGS_H_
