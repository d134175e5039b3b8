/** Number of regions of the model that an NPU may compute. */
#define @NAME@_NPU_REGIONS @npu_regions@
/** Largest number of memories that the commands of a region address. */
#define @NAME@_NPU_MEMORIES 8

/** What a memory holds that commands address. */
typedef enum @name@_npu_kind {
    @NAME@_NPU_NONE,
    @NAME@_NPU_WEIGHTS, /**< The weights in the payload. */
    @NAME@_NPU_SCRATCH, /**< Intermediate values. Only the inputs and outputs in it have to be kept. */
    @NAME@_NPU_FAST,    /**< The same, in the SRAM of the NPU. */
    @NAME@_NPU_INPUT,
    @NAME@_NPU_OUTPUT
} @name@_npu_kind;

/** Memory that commands address by its number. */
typedef struct @name@_npu_memory {
    @name@_npu_kind kind;
    size_t bytes;
} @name@_npu_memory;

/** Place of an input or output in such a memory. */
typedef struct @name@_npu_tensor {
    size_t memory; /**< Its number. */
    size_t offset;
    size_t bytes;
} @name@_npu_tensor;

/** Region of the model. */
typedef struct @name@_npu_region {
    size_t number;
    const char *accelerator;
    int insists;           /**< Whether a failure is an error (--on-npu-error fail), rather than work for the CPU. */
    size_t payload_bytes;  /**< Size of the payload, which is also in @npu_folder@/region-NUMBER.payload. */
    size_t commands;       /**< Offset of the commands in the payload, in Vela's container; a multiple of 16. */
    size_t command_bytes;
    size_t weights;        /**< Offset of the weights in the payload; a multiple of 16. */
    size_t weight_bytes;
    @name@_npu_memory memories[@NAME@_NPU_MEMORIES];
    size_t inputs;
    size_t outputs;
    const @name@_npu_tensor *tensors; /**< Inputs, then outputs. */
} @name@_npu_region;

/** What runs regions on an NPU@npu_linux_text@. */
typedef struct @name@_npu {
    void *state; /**< Passed to the function. */
    /** Returns 1 if it wrote the outputs; 0 if it left them as they were, so that the CPU computes them, to the same
     * bytes; less than 0 to end the run with @NAME@_ERROR_NPU. It reads inputs before it writes an output. The payload
     * is aligned as the arena is, inputs and outputs to their element types. Several threads may call it at once, each
     * for an instance of its own. */
    int (*run)(void *state, const @name@_npu_region *region, const unsigned char *payload,
               const void *const *inputs, void *const *outputs);
} @name@_npu;

