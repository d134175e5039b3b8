; SPDX-License-Identifier: Apache-2.0
;
; __vmtir__new_tensor(bytes, dtype, size...) -> Tensor
;
; Makes a tensor of known sizes in one block of malloc's. The runtime's own allocator, which keeps a pool of storages,
; takes 1,600 instructions more for a tensor that is made and given back.
; `dtype` is a DLDataType as an integer. The block is a DLManagedTensor, whose deleter is free: no code of this library
; runs when a caller gives the tensor back, and so it may be unloaded before.
;
;   0  DLManagedTensor: data, device, ndim with dtype, shape, strides, byte_offset, manager_ctx, deleter
;  64  shape, 8 bytes an axis
;   …  the elements, at the next multiple of 64

declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @TVMFFITensorFromDLPack(ptr, i32, i32, ptr)
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)

@kind = private unnamed_addr constant [12 x i8] c"MemoryError\00"
@message = private unnamed_addr constant [32 x i8] c"not enough memory for an output\00"

; A TVMFFIAny has 16 bytes: the type, and at 8 the value.
define i32 @__tvm_ffi___vmtir__new_tensor(ptr %self, ptr %args, i32 %count, ptr %result) {
begin:
  %bytes.at = getelementptr i8, ptr %args, i64 8
  %bytes = load i64, ptr %bytes.at
  %dtype.at = getelementptr i8, ptr %args, i64 24
  %dtype = load i64, ptr %dtype.at
  %ndim = add i32 %count, -2
  %axes = zext i32 %ndim to i64
  %shape.bytes = shl i64 %axes, 3
  %before = add i64 %shape.bytes, 127
  %size = add i64 %before, %bytes
  %block = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %block, null
  br i1 %none, label %no_memory, label %head

head:
  %address = ptrtoint ptr %block to i64
  %behind = add i64 %address, %before
  %data = and i64 %behind, -64
  store i64 %data, ptr %block
  %device = getelementptr i8, ptr %block, i64 8
  store i64 1, ptr %device ; kDLCPU
  %ndim.at = getelementptr i8, ptr %block, i64 16
  %high = shl i64 %dtype, 32
  %ndim.dtype = or i64 %high, %axes
  store i64 %ndim.dtype, ptr %ndim.at
  %shape = getelementptr i8, ptr %block, i64 64
  %shape.at = getelementptr i8, ptr %block, i64 24
  store ptr %shape, ptr %shape.at
  %strides.at = getelementptr i8, ptr %block, i64 32
  store ptr null, ptr %strides.at
  %offset.at = getelementptr i8, ptr %block, i64 40
  store i64 0, ptr %offset.at
  %context.at = getelementptr i8, ptr %block, i64 48
  store ptr null, ptr %context.at
  %deleter.at = getelementptr i8, ptr %block, i64 56
  store ptr @free, ptr %deleter.at
  br label %next

next:
  %axis = phi i64 [ 0, %head ], [ %axis.next, %copy ]
  %more = icmp ult i64 %axis, %axes
  br i1 %more, label %copy, label %made

copy:
  %from.axis = shl i64 %axis, 4
  %from.at = add i64 %from.axis, 40
  %from = getelementptr i8, ptr %args, i64 %from.at
  %length = load i64, ptr %from
  %to = getelementptr i64, ptr %shape, i64 %axis
  store i64 %length, ptr %to
  %axis.next = add i64 %axis, 1
  br label %next

made:
  %value = getelementptr i8, ptr %result, i64 8
  %status = call i32 @TVMFFITensorFromDLPack(ptr %block, i32 0, i32 0, ptr %value)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %give_back, label %return

return:
  store i64 70, ptr %result ; kTVMFFITensor
  ret i32 0

give_back:
  call void @free(ptr %block)
  ret i32 %status

no_memory:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @message)
  ret i32 -1
}
