// SPDX-License-Identifier: Apache-2.0
// Classify camera frames from C++ with a C library, without a buffer between the camera and the model.
//
//   arm-ext compile --emit c-library --target raspberry-pi-5 -o digits
//   g++ -std=c++11 -O2 -Idigits/include examples/camera_cpp/main.cpp digits/libdigits_int8.a -o camera
//   ffmpeg -f v4l2 -i /dev/video0 -f rawvideo -pix_fmt gray - | ./camera 640 480
//
// Frames are 8-bit grey, one after the other on stdin, as every capture program can write them. Of each, the middle is made
// as small as the model's image, pixel by pixel into the place where the model reads it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "digits_int8.hpp"

namespace {

struct Frame {
    std::size_t width;
    std::size_t height;
    std::vector<unsigned char> pixels;
};

// The mean of each area of the frame's middle, from 0 to 1.
void shrink(const Frame &frame, std::size_t side, float *image)
{
    const std::size_t middle = std::min(frame.width, frame.height);
    const std::size_t left = (frame.width - middle) / 2;
    const std::size_t top = (frame.height - middle) / 2;
    for (std::size_t row = 0; row < side; ++row) {
        for (std::size_t column = 0; column < side; ++column) {
            unsigned long sum = 0;
            unsigned long count = 0;
            for (std::size_t y = row * middle / side; y < (row + 1) * middle / side; ++y) {
                for (std::size_t x = column * middle / side; x < (column + 1) * middle / side; ++x) {
                    sum += frame.pixels[(top + y) * frame.width + left + x];
                    ++count;
                }
            }
            image[row * side + column] = static_cast<float>(sum) / (255.0F * static_cast<float>(count));
        }
    }
}

}  // namespace

int main(int count, char **arguments)
{
    const std::size_t side = digits_int8_input_tensor(DIGITS_INT8_INPUT_IMAGE)->shape[2];
    Frame frame{0, 0, {}};
    if (count == 3) {
        frame.width = std::strtoul(arguments[1], nullptr, 10);
        frame.height = std::strtoul(arguments[2], nullptr, 10);
    }
    if (frame.width < side || frame.height < side || frame.width > 16384 || frame.height > 16384) {
        std::fprintf(stderr, "usage: %s WIDTH HEIGHT < frames of 8-bit grey\n", arguments[0]);
        return 2;
    }
    frame.pixels.resize(frame.width * frame.height);

    digits_int8::Model model;  // its arena is all that it takes from the heap
    if (model.status() != DIGITS_INT8_OK) {
        std::fprintf(stderr, "%s\n", digits_int8_strerror(model.status()));
        return 1;
    }
    float *const image = static_cast<float *>(model.input(DIGITS_INT8_INPUT_IMAGE));
    const float *const logits = static_cast<const float *>(model.output(DIGITS_INT8_OUTPUT_LOGITS));
    while (std::fread(frame.pixels.data(), 1, frame.pixels.size(), stdin) == frame.pixels.size()) {
        shrink(frame, side, image);
        const digits_int8::Status status = model.run();
        if (status != DIGITS_INT8_OK) {
            std::fprintf(stderr, "%s\n", digits_int8_strerror(status));
            return 1;
        }
        const float *const best = std::max_element(logits, logits + DIGITS_INT8_OUTPUT_LOGITS_ELEMENTS);
        std::printf("%d\n", static_cast<int>(best - logits));
        std::fflush(stdout);
    }
    return 0;
}
