// SPDX-License-Identifier: Apache-2.0
// Draws shapes, and compares the function of each variant of schedules/intrinsics/sme.py with
// loops.
//   program SEED SHAPES
// Ends with 1 at the first value that differs; else it prints how many shapes were of each kind.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void function(const void*, const void*, const void*, void*, const long*, void*, long, long);

typedef struct {
  function* call;
  int floats, flipped, to_unsigned, wide, odd, limited;
} variant;

// Made by the test: the fields of the shape as places PLACE_words, …, the functions, and
// `variants`.
#include "variants.h"

enum {
  VARIANTS = sizeof variants / sizeof *variants,
  MOST = 1 << 20,
  PIECES = 3,
  PANEL = 32,
  GUARD = 8,
  FILL = 99
};

typedef union {
  signed char b[MOST];
  unsigned char u[MOST];
  float f[MOST / 4];
} bytes;

static bytes x, w, packed, panel, y;
static int constants[4096];
static unsigned long state;

typedef struct {
  const variant* v;
  long pieces, offsets[PIECES], lengths[PIECES], depth, words, reach;
  long images, height, width, image, line, pixel, start, rows, columns, padded;
  int item, zero;
  float low, high;
} drawn;

static long draw(long least, long most) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return least + (long)((state >> 33) % (unsigned long)(most - least + 1));
}

static int bits(float value) {
  int found;
  memcpy(&found, &value, sizeof found);
  return found;
}

static float real(int word) {
  float found;
  memcpy(&found, &word, sizeof found);
  return found;
}

static long words_of(const drawn* d, long elements) { return (elements * d->item + 3) / 4; }

static drawn draw_shape(const variant* v) {
  drawn d = {.v = v, .item = v->floats ? 4 : 1, .pieces = draw(1, PIECES)};
  for (long p = 0; p < d.pieces; p++) {
    d.offsets[p] = d.reach + (p ? draw(0, 9) : 0);
    d.lengths[p] = draw(1, draw(0, 3) ? 20 : 150);
    d.reach = d.offsets[p] + d.lengths[p];
    d.depth += d.lengths[p];
    d.words += words_of(&d, d.lengths[p]);
  }
  d.images = draw(1, 2), d.height = draw(1, 4), d.width = draw(1, draw(0, 1) ? 9 : 40);
  d.image = draw(1, 300), d.line = draw(1, 90), d.pixel = draw(1, 40), d.start = draw(0, 5);
  d.rows = d.images * d.height * d.width, d.columns = draw(1, 80);
  d.padded = (d.columns + PANEL - 1) / PANEL * PANEL;
  if (v->floats) {
    d.low = v->limited ? -1 : -INFINITY, d.high = v->limited ? 2 : INFINITY;
  } else {
    d.zero = (int)(2 * draw(-30, 30) + v->odd + 60 * v->to_unsigned);
    d.low = v->to_unsigned ? 0 : -128, d.high = v->to_unsigned ? 255 : 127;
    d.low += v->limited ? draw(0, 40) : 0, d.high -= v->limited ? draw(1, 40) : 0;
  }
  return d;
}

static void fill(const drawn* d) {
  long size = d->start + (d->images - 1) * d->image + (d->height - 1) * d->line +
              (d->width - 1) * d->pixel + d->reach;
  for (long i = 0; i < size; i++) {
    if (d->v->floats) {
      x.f[i] = (float)draw(-99, 99) / 64;
    } else {
      x.u[i] = (unsigned char)draw(0, 255);
    }
  }
  memset(&packed, 0, (size_t)(d->padded * d->words * 4));
  for (long n = 0; n < d->columns; n++) {
    for (long p = 0, k = 0, word = 0; p < d->pieces; word += words_of(d, d->lengths[p++])) {
      for (long i = 0; i < d->lengths[p]; i++, k++) {
        long group = n / PANEL * d->words + word + i * d->item / 4;
        long to = (group * PANEL + n % PANEL) * 4 + i * d->item % 4;
        if (d->v->floats) {
          w.f[n * d->depth + k] = packed.f[to / 4] = (float)draw(-99, 99) / 64;
        } else {
          w.b[n * d->depth + k] = packed.b[to] = (signed char)draw(-128, 127);
        }
      }
    }
    float m = (d->v->wide ? 90000.0f : 900.0f) / (float)(draw(1, 9) * (9000 + 2048 * d->depth));
    constants[n] = d->v->floats ? bits((float)draw(-99, 99) / 64) : (int)draw(-9000, 9000);
    constants[d->padded + n] = bits(n % 3 ? m : exp2f(floorf(log2f(m))));
  }
}

static void describe(const drawn* d, long* shape) {
  int narrow = !d->v->floats && !d->v->wide;
  float shift = d->v->floats ? 0 : (float)d->zero;
  shape[PLACE_words] = d->words, shape[PLACE_columns] = d->columns;
  shape[PLACE_constants] = 4 * d->padded, shape[PLACE_zero] = d->zero & 0xffffffff;
  shape[PLACE_low] = narrow ? (long)d->low & 0xffff : bits(d->low - shift) & 0xffffffff;
  shape[PLACE_high] = narrow ? (long)d->high & 0xffff : bits(d->high - shift) & 0xffffffff;
  shape[PLACE_width] = d->width, shape[PLACE_height] = d->height,
  shape[PLACE_start] = d->start * d->item;
  shape[PLACE_image] = d->image * d->item, shape[PLACE_line] = d->line * d->item;
  shape[PLACE_pixel] = d->pixel * d->item, shape[PLACE_pieces] = d->pieces;
  for (long p = 0; p < d->pieces; p++) {
    shape[PLACE_pieces + 1 + 2 * p] = d->offsets[p],
                                 shape[PLACE_pieces + 2 + 2 * p] = d->lengths[p];
  }
}

static float expected(const drawn* d, long r, long n) {
  long line = r / d->width;
  long from =
      d->start + line / d->height * d->image + line % d->height * d->line + r % d->width * d->pixel;
  float sum = real(constants[n]);
  int integer = constants[n];
  for (long p = 0, k = 0; p < d->pieces; p++) {
    for (long i = 0; i < d->lengths[p]; i++, k++) {
      long at = from + d->offsets[p] + i;
      if (d->v->floats) {
        sum = fmaf(x.f[at], w.f[n * d->depth + k], sum);
      } else {
        integer += (d->v->flipped ? x.u[at] - 128 : x.b[at]) * w.b[n * d->depth + k];
      }
    }
  }
  volatile float scaled = (float)integer * real(constants[d->padded + n]);
  return fminf(fmaxf(d->v->floats ? sum : rintf(scaled) + (float)d->zero, d->low), d->high);
}

static int differs(const drawn* d) {
  for (long r = 0; r < d->rows; r++) {
    for (long n = 0; n < d->columns; n++) {
      long at = r * d->columns + n;
      float right = expected(d, r, n);
      float found = d->v->floats ? y.f[at] : d->v->to_unsigned ? y.u[at] : y.b[at];
      if (found != right) {
        printf("variant %d: row %ld of %ld, column %ld of %ld, k %ld: %g, not %g\n",
               (int)(d->v - variants), r, d->rows, n, d->columns, d->depth, found, right);
        return 1;
      }
    }
  }
  for (int i = 0; i < GUARD; i++) {
    if (y.u[d->rows * d->columns * d->item + i] != FILL) {
      printf("variant %d wrote behind the result\n", (int)(d->v - variants));
      return 1;
    }
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count != 3) {
    return 2;
  }
  state = strtoul(arguments[1], NULL, 10);
  long shapes = strtol(arguments[2], NULL, 10), in_pieces = 0, tails = 0, overlapping = 0;
  for (long at = 0; at < shapes; at++) {
    drawn d = draw_shape(variants + at % VARIANTS);
    long shape[64];
    fill(&d);
    describe(&d, shape);
    memset(&y, FILL, (size_t)(d.rows * d.columns * d.item + GUARD));
    // In two parts, of which the first may be empty.
    long middle = draw(0, 1) ? d.rows / 64 * 32 : 0;
    d.v->call(&x, &packed, constants, &y, shape, &panel, 0, middle);
    d.v->call(&x, &packed, constants, &y, shape, &panel, middle, d.rows);
    if (differs(&d)) {
      return 1;
    }
    in_pieces += d.pieces > 1, tails += d.columns % PANEL && d.rows % PANEL,
        overlapping += d.pixel < d.reach;
  }
  printf(
      "%ld shapes, %ld of each variant, %ld of rows in pieces, %ld of tails in both, %ld of rows "
      "that overlap\n",
      shapes, shapes / VARIANTS, in_pieces, tails, overlapping);
  return 0;
}
