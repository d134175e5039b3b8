// SPDX-License-Identifier: Apache-2.0
// As ethosu_gem_cmdstream_copy_and_validate of drivers/accel/ethosu/ethosu_gem.c (Linux 6.19) looks
// a stream over.
#include <string.h>

#include "npu_stream.h"

namespace arm_ext {
namespace {

// Commands: the low half of a word, whose high half is the operand; bit 14: a word of data follows.
constexpr uint32_t kHasData = 0x4000, kWide = 0x100, kNarrow = 0x200;
enum Operation : uint32_t {
  kConv = 2,
  kDepthwise = 3,
  kPool = 5,
  kElementwise = 6,
  kResize = 7,
  kDma = 16,
  kOperations = 0x100  // what sets registers begins here
};

// Registers with an operand.
enum Narrow : uint32_t {
  kPadTop = 0x100,
  kPadLeft,
  kPadRight,
  kPadBottom,
  kIfmDepth,
  kIfmBroadcast = 0x108,
  kOfmWidth = 0x111,
  kOfmHeight,
  kOfmDepth,
  kOfmPrecision,
  kKernelWidth = 0x120,
  kKernelHeight,
  kKernelStride,
  kWeightRegion = 0x128,
  kScaleRegion,
  kDmaSource = 0x130,
  kDmaTarget,
  kDmaSize0,
  kDmaIndices = 0x134,
  kIfm2Broadcast = 0x180
};

// Registers with data, less kHasData.
enum Wide : uint32_t {
  kWeightBase = 0x20,
  kScaleBase = 0x22,
  kDmaSourceOffset = 0x30,
  kDmaTargetOffset,
  kDmaLength,
  kDmaSourceStride,
  kDmaTargetStride = 0x35
};

constexpr uint32_t kGlobalScale = 0x100;  // of kOfmPrecision: no table of scales
constexpr uint32_t kInternal = 0x100;     // of a DMA region: table memory, no region
constexpr uint32_t kIndexed = 0x800;      // of a DMA region: a gather, or a scatter
constexpr uint32_t kScalar = 8;           // of a broadcast: no feature map
constexpr uint32_t kPoolNone = 4;
constexpr uint32_t kIfm2Weights = 1;  // of a convolution: the second input holds the weights

/*! \brief Where the registers of a feature map begin. */
struct Map {
  uint32_t first, precision, wide;
};
constexpr Map kIfm = {0x100, 0x105, 0x00}, kOfm = {0x110, 0x114, 0x10},
              kIfm2 = {0x180, 0x185, 0x80};
constexpr uint32_t kWidth0 = 10, kHeight0 = 11, kHeight1 = 12, kRegion = 15;  // from `first`
constexpr uint32_t kStrideX = 4, kStrideY = 5, kStrideC = 6;                  // from `wide`

/*! \brief Operations of kElementwise with one input: LRELU, ABS, CLZ, and one of U85. */
bool Unary(uint32_t operation) {
  return operation == 5 || operation == 6 || operation == 7 || operation == 0x24;
}

struct Scan {
  uint16_t narrow[kNarrow];  // by number less kOperations
  uint64_t wide[kWide];
  DriverView view;

  uint32_t Get(uint32_t command) const { return narrow[command - kOperations]; }

  void Reach(uint32_t region, uint64_t size) {
    uint64_t* most = &view.sizes[region % abi::kRegions];
    if (size > *most) *most = size;
  }

  void Write(uint32_t region) { view.written |= 1u << region % abi::kRegions; }

  /*! \brief A feature map up to an element, which lies in one of four tiles or three. */
  void Touch(const Map& map, uint32_t x, uint32_t y, uint32_t c) {
    uint32_t precision = Get(map.precision), height0 = Get(map.first + kHeight0);
    uint32_t width0 = Get(map.first + kWidth0), height1 = Get(map.first + kHeight1), tile = 0;
    if (precision >> 14 == 0) {
      if (x > width0) {
        x -= width0 + 1;
        tile = 1;
      }
      uint32_t height = tile == 0 ? height0 : height1;
      if (y > height) {
        y -= height + 1;
        tile += 2;
      }
    } else if (precision >> 14 == 1) {
      tile = y > height1 ? 2 : y > height0 ? 1 : 0;
      if (tile != 0) y -= (tile == 2 ? height1 : height0) + 1;
    }
    const uint64_t* at = &wide[map.wide];
    uint64_t last = at[tile] + y * at[kStrideY];
    if ((precision >> 6 & 3) == 0) {
      last += x * at[kStrideX] + c;
    } else if ((precision >> 6 & 3) == 1) {
      last += c / 16 * at[kStrideC] + ((uint64_t{16} * x + c % 16) << (precision >> 1 & 3));
    }
    Reach(Get(map.first + kRegion), last + 1);
  }

  void Output() {
    Touch(kOfm, Get(kOfmWidth), Get(kOfmHeight), Get(kOfmDepth));
    Write(Get(kOfm.first + kRegion));
  }

  /*! \brief What a kernel reads of the input, without regard to up-scaling. */
  void Input() {
    uint32_t stride = Get(kKernelStride);
    uint32_t down = (stride >> 8 & 2) + (stride >> 1 & 1) + 1;
    uint32_t across = (stride >> 5 & 2) + (stride & 1) + 1;
    uint32_t height = Get(kOfmHeight) * down + Get(kKernelHeight) - (Get(kPadTop) & 0x7F) -
                      (Get(kPadBottom) & 0xFF);
    uint32_t width = Get(kOfmWidth) * across + Get(kKernelWidth) - (Get(kPadLeft) & 0x7F) -
                     (Get(kPadRight) & 0xFF);
    Touch(kIfm, width, height, Get(kIfmDepth));
  }

  void Area(uint32_t region, uint32_t base) {
    Reach(Get(region), wide[base] + static_cast<uint32_t>(wide[base + 1]));
  }

  void Kernel(uint32_t operation, uint32_t operand) {
    bool macs = operation != kPool;
    if (macs || operand != kPoolNone) Input();
    if (macs && (operand & kIfm2Weights)) {
      Touch(kIfm2, Get(kIfmDepth), 0, Get(kOfmDepth));
    } else if (macs) {
      Area(kWeightRegion, kWeightBase);
    }
    if (!(Get(kOfmPrecision) & kGlobalScale)) Area(kScaleRegion, kScaleBase);
    Output();
  }

  void Elementwise(uint32_t operand) {
    auto input = [this](const Map& map, uint32_t broadcast) {
      Touch(map, broadcast & 2 ? 0 : Get(kOfmWidth), broadcast & 1 ? 0 : Get(kOfmHeight),
            broadcast & 4 ? 0 : Get(kOfmDepth));
    };
    uint32_t first = Get(kIfmBroadcast) & 0xFF, second = Get(kIfm2Broadcast) & 0xFF;
    if (first != kScalar) input(kIfm, first);
    if (second != kScalar && !Unary(operand)) input(kIfm2, second);
    Output();
  }

  void Dma(uint32_t end, uint32_t offset, uint32_t strides) {
    if (Get(end) & kInternal) return;
    uint64_t length = wide[kDmaLength];
    uint32_t mode = Get(kDmaSource) >> 9 & 3, axes = mode == 2 ? 2 : mode != 0;
    for (uint32_t axis = 0; axis < axes; ++axis) {
      length = (length + wide[strides + axis]) * Get(kDmaSize0 + axis);
    }
    Reach(Get(end), length + wide[offset]);
    if (end == kDmaTarget) Write(Get(end));
  }

  void Operate(uint32_t operation, uint32_t operand) {
    if (operation == kConv || operation == kDepthwise || operation == kPool) {
      Kernel(operation, operand);
    } else if (operation == kElementwise) {
      Elementwise(operand);
    } else if (operation == kDma) {
      Dma(kDmaSource, kDmaSourceOffset, kDmaSourceStride);
      Dma(kDmaTarget, kDmaTargetOffset, kDmaTargetStride);
      bool indexed = (Get(kDmaSource) | Get(kDmaTarget)) & kIndexed;
      if (indexed) view.indices |= 1u << Get(kDmaIndices) % abi::kRegions;
    }
    view.resizes |= operation == kResize;
  }

  /*! \brief Takes in the command at a word; returns how many words it has. */
  uint32_t Take(const uint32_t* words, uint32_t left) {
    uint32_t command = words[0] & 0xFFFF, operand = words[0] >> 16;
    if (command & kHasData) {
      if (left < 2) return 1;
      uint64_t data = uint64_t{operand & 0xFF} << 32 | words[1];
      uint32_t number = command & ~kHasData;
      // Strides of a DMA are signed.
      bool stride = number >= kDmaSourceStride && number < kDmaTargetStride + 2;
      if (stride && (data >> 39) != 0) data |= ~uint64_t{0} << 40;
      if (number < kWide) wide[number] = data;
      return 2;
    }
    if (command < kOperations) {
      Operate(command, operand);
    } else if (command < kOperations + kNarrow) {
      narrow[command - kOperations] = static_cast<uint16_t>(operand);
    }
    return 1;
  }
};

}  // namespace

void Preamble(uint32_t region, uint32_t (&words)[kPreambleWords]) {
  uint32_t* at = words;
  constexpr Map kMaps[] = {kIfm, kOfm, kIfm2};
  for (const Map& map : kMaps) {
    *at++ = region << 16 | (map.first + kRegion);
    for (uint32_t i = 0; i <= kStrideC; ++i) {
      *at++ = kHasData | (map.wide + i);
      *at++ = 0;
    }
  }
}

DriverView LookOver(const uint8_t* commands, uint32_t bytes, uint32_t region) {
  Scan scan;
  memset(scan.narrow, 0xFF, sizeof(scan.narrow));
  memset(scan.wide, 0xFF, sizeof(scan.wide));
  uint32_t preamble[kPreambleWords];
  Preamble(region, preamble);
  for (uint32_t at = 0; at < kPreambleWords;) at += scan.Take(preamble + at, kPreambleWords - at);
  uint32_t words[2];
  for (uint32_t at = 0, left = bytes / 4; left != 0;) {
    memcpy(words, commands + 4 * at, left > 1 ? 8 : 4);
    uint32_t taken = scan.Take(words, left);
    at += taken;
    left -= taken;
  }
  return scan.view;
}

}  // namespace arm_ext
