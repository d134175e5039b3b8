// SPDX-License-Identifier: Apache-2.0
#ifndef ARM_EXT_NATIVE_NPU_FAILURE_H_
#define ARM_EXT_NATIVE_NPU_FAILURE_H_

#include <stdarg.h>
#include <stdio.h>

namespace arm_ext {

/*! \brief What a failure concerns, and so for how long it holds. */
enum class Scope {
  kNone,    // no failure
  kAbsent,  // there is no NPU for Linux here: not an error, unless the user insists on one
  kCall,    // this call; the next one tries again
  kRegion,  // the region, for good
  kDevice,  // the device, for good
};

/*! \brief What went wrong, and what to do. */
struct Failure {
  Scope scope = Scope::kNone;
  char text[400] = "";

  explicit operator bool() const { return scope != Scope::kNone; }
};

__attribute__((format(printf, 2, 3))) inline Failure Failed(Scope scope, const char* format, ...) {
  Failure failure;
  failure.scope = scope;
  va_list values;
  va_start(values, format);
  vsnprintf(failure.text, sizeof(failure.text), format, values);
  va_end(values);
  return failure;
}

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_FAILURE_H_
