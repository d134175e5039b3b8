// SPDX-License-Identifier: Apache-2.0
// Runs regions on many threads in several models at once, without TVM, so that sanitizers see the
// runtime alone.
//
//   npu_harness THREADS ROUNDS MODEL.so... -- CASE...
//
// A case is u32 payload bytes, inputs, outputs; the payload; and of each tensor u32 type code,
// bits, rank, u32 0, i64 shape[6], u64 bytes, and the bytes. Prints how many calls ran where; fails
// on wrong bytes, and if files or mappings are left once the models are unloaded.
#include <dirent.h>
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

namespace {

constexpr uint8_t kPattern = 0x55;
constexpr int kMost = 64, kCases = 256;

struct Tensor {
  uint32_t code, bits, rank, zero;
  int64_t shape[6];
  uint64_t size;
};
static_assert(sizeof(Tensor) == 72, "as Python writes it");

struct Case {
  uint32_t payload_size, inputs, outputs;
  uint8_t *file, *payload;
  Tensor tensors[kMost];
  uint8_t* data[kMost];
};

using Run = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

Case cases[kCases];
Run runs[kMost];
int case_count, model_count, rounds;
int on_npu, on_cpu, errors;  // atomic

[[noreturn]] void Die(const char* what) {
  fprintf(stderr, "npu_harness: %s\n", what);
  exit(1);
}

void Read(const char* path, Case* read) {
  FILE* file = fopen(path, "rb");
  if (file == nullptr || fseek(file, 0, SEEK_END) != 0) Die(path);
  long size = ftell(file);
  rewind(file);
  read->file = static_cast<uint8_t*>(malloc(size));
  if (fread(read->file, 1, size, file) != static_cast<size_t>(size)) Die(path);
  fclose(file);
  const uint8_t* at = read->file;
  auto take = [&at](void* to, size_t bytes) {
    memcpy(to, at, bytes);
    at += bytes;
  };
  take(&read->payload_size, 4);
  take(&read->inputs, 4);
  take(&read->outputs, 4);
  // Of its own, so that reading beyond it is seen.
  read->payload = static_cast<uint8_t*>(malloc(read->payload_size));
  take(read->payload, read->payload_size);
  for (uint32_t i = 0; i < read->inputs + read->outputs; ++i) {
    take(&read->tensors[i], sizeof(Tensor));
    read->data[i] = static_cast<uint8_t*>(malloc(read->tensors[i].size));
    take(read->data[i], read->tensors[i].size);
  }
}

TVMFFIAny Arg(int32_t type, void* pointer, int64_t value) {
  TVMFFIAny arg = {};
  arg.type_index = type;
  if (pointer != nullptr) {
    arg.v_ptr = pointer;
  } else {
    arg.v_int64 = value;
  }
  return arg;
}

void CallOnce(int number, Run run, bool fail) {
  const Case& region = cases[number];
  uint32_t count = region.inputs + region.outputs;
  TVMFFIAny args[3 + kMost], result = {};
  int64_t payload_size = region.payload_size;
  DLTensor payload = {region.payload, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &payload_size, nullptr, 0};
  DLTensor tensors[kMost];
  uint8_t* outputs[kMost];
  args[0] = Arg(kTVMFFIInt, nullptr, number);
  args[1] = Arg(kTVMFFIInt, nullptr, fail);
  args[2] = Arg(kTVMFFIDLTensorPtr, &payload, 0);
  for (uint32_t i = 0; i < count; ++i) {
    const Tensor& tensor = region.tensors[i];
    uint8_t* data = region.data[i];
    if (i >= region.inputs) {
      data = outputs[i] = static_cast<uint8_t*>(malloc(tensor.size));
      memset(data, kPattern, tensor.size);
    }
    DLDataType type = {static_cast<uint8_t>(tensor.code), static_cast<uint8_t>(tensor.bits), 1};
    tensors[i] = {data,
                  {kDLCPU, 0},
                  static_cast<int32_t>(tensor.rank),
                  type,
                  const_cast<int64_t*>(tensor.shape),
                  nullptr,
                  0};
    args[3 + i] = Arg(kTVMFFIDLTensorPtr, &tensors[i], 0);
  }
  int status = run(nullptr, args, static_cast<int32_t>(3 + count), &result);
  bool ran = status == 0 && result.v_int64 != 0;
  __atomic_add_fetch(status != 0 ? &errors : ran ? &on_npu : &on_cpu, 1, __ATOMIC_RELAXED);
  for (uint32_t i = region.inputs; i < count; ++i) {
    for (uint64_t at = 0; at < region.tensors[i].size; ++at) {
      if (outputs[i][at] != (ran ? region.data[i][at] : kPattern)) Die("wrong bytes");
    }
    free(outputs[i]);
  }
}

void* Work(void* argument) {
  int thread = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < case_count; ++i) {
      CallOnce((i + thread) % case_count, runs[(thread + round) % model_count], thread % 2 != 0);
    }
  }
  return nullptr;
}

int OpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

bool MapsBuffers() {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false;
  while (fgets(line, sizeof(line), maps) != nullptr) found |= strstr(line, "/buffer-") != nullptr;
  fclose(maps);
  return found;
}

}  // namespace

extern "C" void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  if (strlen(kind) == 0 || strlen(message) == 0) Die("an error says nothing");
}

extern "C" int TVMFFIStringFromByteArray(const TVMFFIByteArray* text, TVMFFIAny* out) {
  *out = Arg(kTVMFFIInt, nullptr, static_cast<int64_t>(strnlen(text->data, text->size)));
  return 0;
}

int main(int argc, char** argv) {
  int before = OpenFiles();
  int threads = atoi(argv[1]), at = 3;
  rounds = atoi(argv[2]);
  void* models[kMost];
  for (; strcmp(argv[at], "--") != 0; ++at) {
    models[model_count] = dlopen(argv[at], RTLD_NOW | RTLD_LOCAL);
    if (models[model_count] == nullptr) Die(dlerror());
    runs[model_count] =
        reinterpret_cast<Run>(dlsym(models[model_count], "__tvm_ffi_arm_ext_npu_run"));
    ++model_count;
  }
  if (argc - at > kCases) Die("too many cases");
  for (++at; at < argc; ++at) Read(argv[at], &cases[case_count++]);
  pthread_t workers[kMost];
  for (intptr_t i = 0; i < threads; ++i) {
    pthread_create(&workers[i], nullptr, Work, reinterpret_cast<void*>(i));
  }
  for (int i = 0; i < threads; ++i) pthread_join(workers[i], nullptr);
  for (int i = 0; i < model_count; ++i) {
    TVMFFIAny text = {};
    auto status = reinterpret_cast<Run>(dlsym(models[i], "__tvm_ffi_arm_ext_npu_status"));
    if (status(nullptr, nullptr, 0, &text) != 0 || text.v_int64 == 0) Die("no status");
    dlclose(models[i]);
  }
  for (int i = 0; i < case_count; ++i) {
    free(cases[i].file);
    free(cases[i].payload);
    for (uint32_t j = 0; j < cases[i].inputs + cases[i].outputs; ++j) free(cases[i].data[j]);
  }
  if (OpenFiles() != before) Die("files are left open");
  if (MapsBuffers()) Die("buffers are left mapped");
  printf("npu %d cpu %d errors %d\n", on_npu, on_cpu, errors);
  return 0;
}
