// SPDX-License-Identifier: Apache-2.0
// The C++ class gives what the C functions give, step by step.
#include "digits_int8.hpp"
#include "lstm.hpp"

int main()
{
    float image[DIGITS_INT8_INPUT_IMAGE_ELEMENTS];
    float logits[DIGITS_INT8_OUTPUT_LOGITS_ELEMENTS] = {};
    for (std::size_t i = 0; i < DIGITS_INT8_INPUT_IMAGE_ELEMENTS; ++i) {
        image[i] = static_cast<float>(i % 16);
    }
    digits_int8::Model model;
    if (model.status() != DIGITS_INT8_OK || model.run(image, logits) != DIGITS_INT8_OK || logits[0] == logits[1] ||
        model.failure() != nullptr) {
        return 1;
    }
    float *const place = static_cast<float *>(model.input(DIGITS_INT8_INPUT_IMAGE));
    for (std::size_t i = 0; i < DIGITS_INT8_INPUT_IMAGE_ELEMENTS; ++i) {
        place[i] = image[i];
    }
    if (model.run() != DIGITS_INT8_OK || static_cast<const float *>(model.output(0))[0] != logits[0]) {
        return 2;
    }
    lstm::Model layer;
    const float x[LSTM_INPUT_X_ELEMENTS] = {1, 2, 3, 4, 5};
    float first[LSTM_OUTPUT_Y_ELEMENTS];
    float second[LSTM_OUTPUT_Y_ELEMENTS];
    float again[LSTM_OUTPUT_Y_ELEMENTS];
    if (layer.step(x, first) != LSTM_OK || layer.step(x, second) != LSTM_OK || layer.reset() != LSTM_OK ||
        layer.step(x, again) != LSTM_OK) {
        return 3;
    }
    return first[0] == again[0] && first[0] != second[0] ? 0 : 4;
}
