// SPDX-License-Identifier: Apache-2.0
// What a compiled model calls, by the names under which TVM finds functions in a library.
#include <stdlib.h>

#include "ffi.h"
#include "npu_runtime.h"

namespace arm_ext {
namespace {

constexpr int kFixed = 3;  // arguments before the tensors

const DLTensor* TensorOf(const TVMFFIAny& arg) {
  if (arg.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(arg.v_ptr);
  if (arg.type_index != kTVMFFITensor) return nullptr;
  return reinterpret_cast<const DLTensor*>(arg.v_obj + 1);  // it follows the object's header
}

bool IsInt(const TVMFFIAny& arg) {
  return arg.type_index == kTVMFFIInt || arg.type_index == kTVMFFIBool;
}

int Raise(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

}  // namespace
}  // namespace arm_ext

/*!
 * \brief arm_ext_npu_run(region: int, on_error: int, payload: uint8[n], inputs..., outputs...) ->
 * bool
 *
 * Runs a region of the model on the NPU and returns true, or returns false where the CPU has to:
 * then the outputs are as they were. With `on_error` 1 it raises what fails on an NPU that is
 * there; the environment variable ARM_EXT_NPU says "auto", "npu" (raise whenever the NPU does not
 * run it) or "cpu".
 */
ARM_EXT_ENTRY int __tvm_ffi_arm_ext_npu_run(void*, const TVMFFIAny* args, int32_t num_args,
                                            TVMFFIAny* result) {
  using namespace arm_ext;
  constexpr char kUsage[] = "arm_ext_npu_run takes region, on_error, payload, and tensors";
  if (num_args < kFixed || num_args > kFixed + kMaxTensors || !IsInt(args[0]) || !IsInt(args[1])) {
    return Raise("TypeError", kUsage);
  }
  const DLTensor* tensors[1 + kMaxTensors];
  uint8_t* data[1 + kMaxTensors];
  for (int i = kFixed - 1; i < num_args; ++i) {
    const DLTensor* tensor = TensorOf(args[i]);
    if (tensor == nullptr) return Raise("TypeError", kUsage);
    tensors[i - (kFixed - 1)] = tensor;
    data[i - (kFixed - 1)] = static_cast<uint8_t*>(tensor->data) + tensor->byte_offset;
  }
  const DLTensor& payload = *tensors[0];
  if (payload.ndim != 1 || payload.dtype.code != kDLUInt || payload.dtype.bits != 8) {
    return Raise("TypeError", kUsage);
  }
  Call call = {args[0].v_int64,
               nullptr,
               args[1].v_int64 != 0,
               data[0],
               static_cast<size_t>(payload.shape[0]),
               tensors + 1,
               data + 1,
               num_args - kFixed};
  bool ran;
  if (Failure failure = Run(call, &ran)) return Raise("RuntimeError", failure.text);
  *result = {};
  result->type_index = kTVMFFIBool;
  result->v_int64 = ran;
  return 0;
}

/*! \brief arm_ext_npu_status() -> str: which regions ran where since the model was loaded, as JSON.
 */
ARM_EXT_ENTRY int __tvm_ffi_arm_ext_npu_status(void*, const TVMFFIAny*, int32_t,
                                               TVMFFIAny* result) {
  using namespace arm_ext;
  char* text = Status();
  if (text == nullptr) return Raise("RuntimeError", "no memory for the status");
  TVMFFIByteArray bytes = Bytes(text);
  int status = TVMFFIStringFromByteArray(&bytes, result);
  free(text);
  return status;
}
