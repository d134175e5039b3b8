// SPDX-License-Identifier: Apache-2.0
// Counts what ExecuTorch takes for a program with one float input, without Python:
//
//   executorch_start model.pte start|inference
//
// Between the marks of count_plugin.c is one warm inference, or all from the opening of the file to
// the first outputs, of inputs of ones. It runs in this thread alone, and prints the outputs.
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/extension/threadpool/threadpool_guard.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using executorch::aten::DimOrderType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::extension::FileDataLoader;
using executorch::extension::MallocMemoryAllocator;
using executorch::extension::threadpool::NoThreadPoolGuard;
using namespace executorch::runtime;

constexpr long kBeginMark = 0x5A5A01, kEndMark = 0x5A5A02;
constexpr size_t kAlignment = 64, kMostBuffers = 8, kMostRank = 8;
constexpr int kWarmup = 4;  // as of the other runtimes

void* Room(size_t bytes) {
  return aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

int Failed(const char* what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return Failed("usage: executorch_start model.pte start|inference");
  const bool is_start = strcmp(argv[2], "start") == 0;
  runtime_init();
  NoThreadPoolGuard guard;
  if (is_start) syscall(SYS_close, kBeginMark);
  auto loader = FileDataLoader::from(argv[1]);
  if (!loader.ok()) return Failed("the file cannot be read");
  auto program = Program::load(&loader.get());
  if (!program.ok()) return Failed("the program cannot be loaded");
  auto meta = program->method_meta("forward");
  if (!meta.ok() || meta->num_memory_planned_buffers() > kMostBuffers) return Failed("forward");
  Span<uint8_t> spans[kMostBuffers];
  for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
    const size_t bytes = static_cast<size_t>(meta->memory_planned_buffer_size(i).get());
    spans[i] = {static_cast<uint8_t*>(Room(bytes)), bytes};
  }
  HierarchicalAllocator planned({spans, meta->num_memory_planned_buffers()});
  MallocMemoryAllocator of_method, temporary;
  MemoryManager memory(&of_method, &planned, &temporary);
  auto method = program->load_method("forward", &memory);
  auto info = meta->input_tensor_meta(0);
  if (!method.ok() || !info.ok() || info->sizes().size() > kMostRank) return Failed("load_method");
  float* data = static_cast<float*>(Room(info->nbytes()));
  for (size_t i = 0; i < info->nbytes() / sizeof *data; ++i) data[i] = 1;
  SizesType sizes[kMostRank];
  DimOrderType order[kMostRank];
  for (size_t i = 0; i < info->sizes().size(); ++i) {
    sizes[i] = info->sizes()[i];
    order[i] = info->dim_order()[i];
  }
  TensorImpl tensor(info->scalar_type(), static_cast<ssize_t>(info->sizes().size()), sizes, data,
                    order);
  if (method->set_input(EValue(Tensor(&tensor)), 0) != Error::Ok) return Failed("set_input");
  for (int i = 0; !is_start && i < kWarmup; ++i) {
    if (method->execute() != Error::Ok) return Failed("execute");
  }
  if (!is_start) syscall(SYS_close, kBeginMark);
  const Error status = method->execute();
  syscall(SYS_close, kEndMark);
  if (status != Error::Ok) return Failed("execute");
  const Tensor output = method->get_output(0).toTensor();
  for (ssize_t i = 0; i < output.numel(); ++i) printf("%.6g\n", output.const_data_ptr<float>()[i]);
  return 0;
}
