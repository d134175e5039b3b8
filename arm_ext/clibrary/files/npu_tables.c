static const @name@_npu_tensor npu_tensors[] = {
@npu_tensors@};

static const @name@_npu_region npu_regions[@NAME@_NPU_REGIONS] = {
@npu_rows@};

/* 1 if an NPU has computed a region, 0 if the CPU has to, less than 0 if neither should. */
static int offer(const @name@_npu *npu, size_t region, const unsigned char *payload, const void *const *inputs,
                 void *const *outputs)
{
    return npu == NULL ? 0 : npu->run(npu->state, &npu_regions[region], payload, inputs, outputs);
}

