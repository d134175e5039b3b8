// SPDX-License-Identifier: Apache-2.0
// Counts what a package takes to start in TVM's runtime, in a program without Python:
//
//   package_start model.so INPUT...    with each input as code:bits:size,size,...
//
// Between the marks of count_plugin.c are the loading of model.so, the making of the virtual
// machine, and its first inference, of inputs of zeros. The runtime's libraries are loaded before.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffi.h"

namespace {

constexpr long kBeginMark = 0x5A5A01, kEndMark = 0x5A5A02;
constexpr int kMaxInputs = 16, kMaxRank = 8;
constexpr int kPooledAllocator = 2;  // tvm.runtime.vm.VirtualMachine's default

bool Check(bool done, const char* what) {
  if (!done) fprintf(stderr, "%s\n", what);
  return done;
}

/*! \brief Calls a function of a module. */
bool CallOf(TVMFFIAny module, const char* name, TVMFFIAny* args, int count, TVMFFIAny* result) {
  TVMFFIAny query[] = {module, arm_ext::StrArg(name), arm_ext::IntArg(0)}, function;
  query[2].type_index = kTVMFFIBool;
  return arm_ext::CallGlobal("ffi.ModuleGetFunction", query, 3, &function) == 0 &&
         function.type_index == kTVMFFIFunction &&
         TVMFFIFunctionCall(function.v_obj, args, count, result) == 0;
}

bool Zeros(char* text, DLManagedTensor* tensor, int64_t* shape, TVMFFIAny* input) {
  DLTensor* data = &tensor->dl_tensor;
  data->device = {kDLCPU, 0};
  data->dtype.code = static_cast<uint8_t>(strtol(text, &text, 10));
  data->dtype.bits = static_cast<uint8_t>(strtol(text + 1, &text, 10));
  data->dtype.lanes = 1;
  data->shape = shape;
  size_t bytes = (data->dtype.bits + 7) / 8;
  while (*text != '\0' && data->ndim < kMaxRank) {
    shape[data->ndim] = strtol(text + 1, &text, 10);
    bytes *= static_cast<size_t>(shape[data->ndim++]);
  }
  constexpr size_t kAlignment = 64;
  data->data = aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (data->data == nullptr) return false;
  memset(data->data, 0, bytes);
  TVMFFIObjectHandle handle = nullptr;
  if (TVMFFITensorFromDLPack(tensor, kAlignment, 1, &handle) != 0) return false;
  input->type_index = kTVMFFITensor;
  input->v_obj = static_cast<TVMFFIObject*>(handle);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  static DLManagedTensor tensors[kMaxInputs];
  static int64_t shapes[kMaxInputs][kMaxRank];
  TVMFFIAny inputs[kMaxInputs] = {}, module = {}, machine = {}, result = {};
  const int count = argc - 2;
  if (!Check(count >= 0 && count <= kMaxInputs, "model.so INPUT...")) return 2;
  static const char* const kLibraries[] = {"libtvm_runtime.so", "libtvm_runtime_extra.so"};
  for (const char* library : kLibraries) {
    if (!Check(dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr, library)) return 3;
  }
  for (int i = 0; i < count; ++i) {
    if (!Check(Zeros(argv[i + 2], &tensors[i], shapes[i], &inputs[i]), argv[i + 2])) return 2;
  }
  TVMFFIAny path = arm_ext::StrArg(argv[1]);
  TVMFFIAny device[] = {arm_ext::IntArg(kDLCPU), arm_ext::IntArg(0),
                        arm_ext::IntArg(kPooledAllocator)};
  syscall(SYS_close, kBeginMark);
  bool done = arm_ext::CallGlobal("ffi.ModuleLoadFromFile", &path, 1, &module) == 0 &&
              CallOf(module, "vm_load_executable", nullptr, 0, &machine) &&
              CallOf(machine, "vm_initialization", device, 3, &result) &&
              CallOf(machine, "main", inputs, count, &result);
  syscall(SYS_close, kEndMark);
  return Check(done, "the package does not run") ? 0 : 1;
}
