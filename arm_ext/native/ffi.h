// SPDX-License-Identifier: Apache-2.0
// The little of TVM's C ABI that the board server uses. Its C++ API is left out on purpose: the
// runtime libraries are built with libstdc++, and with C alone the server needs no C++ library of
// any kind.
#ifndef ARM_EXT_NATIVE_FFI_H_
#define ARM_EXT_NATIVE_FFI_H_

#include <string.h>
#include <tvm/ffi/c_api.h>

namespace arm_ext {

inline TVMFFIByteArray Bytes(const char* text) { return {text, strlen(text)}; }

inline TVMFFIAny IntArg(int64_t value) {
  TVMFFIAny arg = {};
  arg.type_index = kTVMFFIInt;
  arg.v_int64 = value;
  return arg;
}

inline TVMFFIAny StrArg(const char* text) {
  TVMFFIAny arg = {};
  arg.type_index = kTVMFFIRawStr;
  arg.v_c_str = text;
  return arg;
}

/*! \brief The text of a string argument, valid as long as `arg`; null if it is none. */
inline const char* TextOf(const TVMFFIAny& arg) {
  if (arg.type_index == kTVMFFIRawStr) return arg.v_c_str;
  if (arg.type_index == kTVMFFISmallStr) return arg.v_bytes;
  if (arg.type_index != kTVMFFIStr) return nullptr;
  // A string object is the object header and then the byte array, NUL-terminated.
  return reinterpret_cast<const TVMFFIByteArray*>(arg.v_obj + 1)->data;
}

/*! \brief Calls a global function; nonzero, with the error raised in this thread, if it fails. */
inline int CallGlobal(const char* name, TVMFFIAny* args, int num_args, TVMFFIAny* result) {
  TVMFFIByteArray key = Bytes(name);
  TVMFFIObjectHandle function = nullptr;
  *result = {};
  if (TVMFFIFunctionGetGlobal(&key, &function) != 0) return -1;
  if (function == nullptr) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", name);
    return -1;
  }
  int status = TVMFFIFunctionCall(function, args, num_args, result);
  TVMFFIObjectDecRef(function);
  return status;
}

/*! \brief Registers a global function, in place of one of that name. */
inline bool SetGlobal(const char* name, TVMFFISafeCallType call, const void* self = nullptr) {
  TVMFFIByteArray key = Bytes(name);
  TVMFFIObjectHandle function = nullptr;
  if (TVMFFIFunctionCreate(const_cast<void*>(self), call, nullptr, &function) != 0) return false;
  bool done = TVMFFIFunctionSetGlobal(&key, function, /*allow_override=*/1) == 0;
  TVMFFIObjectDecRef(function);
  return done;
}

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_FFI_H_
