// SPDX-License-Identifier: Apache-2.0
#include "npu_sha256.h"

#include <string.h>

namespace arm_ext {
namespace {

constexpr size_t kBlock = 64;

// FIPS 180-4, 5.3.3: fractional parts of the square roots of the first 8 primes.
constexpr uint32_t kInitial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// 4.2.2: fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t Rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

uint32_t BigEndian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

/*! \brief 6.2.2: one block. */
void Compress(const uint8_t* block, uint32_t (&state)[8]) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = BigEndian(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    uint32_t s0 = Rotated(w[t - 15], 7) ^ Rotated(w[t - 15], 18) ^ w[t - 15] >> 3;
    uint32_t s1 = Rotated(w[t - 2], 17) ^ Rotated(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t v[8];
  memcpy(v, state, sizeof(v));
  for (int t = 0; t < 64; ++t) {
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t sum1 = Rotated(v[4], 6) ^ Rotated(v[4], 11) ^ Rotated(v[4], 25);
    uint32_t sum0 = Rotated(v[0], 2) ^ Rotated(v[0], 13) ^ Rotated(v[0], 22);
    uint32_t t1 = v[7] + sum1 + choice + kRound[t] + w[t];
    memmove(v + 1, v, 7 * sizeof(v[0]));
    v[4] += t1;
    v[0] = t1 + sum0 + majority;
  }
  for (int i = 0; i < 8; ++i) state[i] += v[i];
}

}  // namespace

void Sha256(const uint8_t* data, size_t size, uint8_t (&digest)[kSha256Bytes]) {
  uint32_t state[8];
  memcpy(state, kInitial, sizeof(state));
  size_t whole = size / kBlock * kBlock;
  for (size_t at = 0; at < whole; at += kBlock) Compress(data + at, state);

  // 5.1.1: a one bit, zeros, and the length in bits; one block more where they do not fit the last.
  uint8_t last[2 * kBlock] = {};
  size_t rest = size - whole;
  if (rest != 0) memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  size_t padded = rest + 9 <= kBlock ? kBlock : 2 * kBlock;
  uint64_t bits = uint64_t{size} * 8;
  for (int i = 0; i < 8; ++i) last[padded - 1 - i] = static_cast<uint8_t>(bits >> 8 * i);
  for (size_t at = 0; at < padded; at += kBlock) Compress(last + at, state);

  for (int i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - i % 4 * 8));
}

}  // namespace arm_ext
