/* Regions of the model that an NPU may compute. */
#define @NAME@_NPU_REGIONS @npu_regions@
#define @NAME@_NPU_MEMORIES 8

typedef enum @name@_npu_kind {
    @NAME@_NPU_NONE,
    @NAME@_NPU_WEIGHTS, /* the weights in the payload */
    @NAME@_NPU_SCRATCH, /* what lies in it does not matter but for inputs and outputs */
    @NAME@_NPU_FAST,    /* the same in the SRAM of the NPU */
    @NAME@_NPU_INPUT,
    @NAME@_NPU_OUTPUT
} @name@_npu_kind;

/* Memory that commands address by its number. */
typedef struct @name@_npu_memory {
    @name@_npu_kind kind;
    size_t bytes;
} @name@_npu_memory;

/* Where in that memory an input or output lies. */
typedef struct @name@_npu_tensor {
    size_t memory;
    size_t offset;
    size_t bytes;
} @name@_npu_tensor;

typedef struct @name@_npu_region {
    size_t number;
    const char *accelerator;
    int insists;          /* a failure is to be an error (--on-npu-error fail), not the CPU's work */
    size_t payload_bytes; /* the same bytes as @npu_folder@/region-NUMBER.payload */
    size_t commands;      /* offset in the payload of the commands, in Vela's container, a multiple of 16 */
    size_t command_bytes;
    size_t weights; /* the same of the weights */
    size_t weight_bytes;
    @name@_npu_memory memories[@NAME@_NPU_MEMORIES];
    size_t inputs;
    size_t outputs;
    const @name@_npu_tensor *tensors; /* inputs, then outputs */
} @name@_npu_region;

/* What runs regions on an NPU@npu_linux_text@. */
typedef struct @name@_npu {
    void *state;
    /* Returns 1 if it wrote the outputs; 0 if they are as they were, for the CPU to compute, which gives the same
     * bytes; and less to end the run with @NAME@_ERROR_NPU. Inputs are read before an output is written. The payload
     * is aligned as the arena, inputs and outputs to their elements. Instances in several threads call it at once. */
    int (*run)(void *state, const @name@_npu_region *region, const unsigned char *payload,
               const void *const *inputs, void *const *outputs);
} @name@_npu;

