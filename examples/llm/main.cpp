// SPDX-License-Identifier: Apache-2.0
// Generates text with a C library of a language model: token numbers in, token numbers out, the most likely each time.
//
//   arm-ext llm compile model.gguf --chunks 1,8 --emit c-library -o model-c
//   g++ -std=c++17 -DMODEL=model -Imodel-c/include main.cpp model-c/libmodel.a -o generate
//   ./generate COUNT END ID...        COUNT tokens at most, or until the token END
//
// A prompt is appended in chunks of the library's shapes, which increase from one token on.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define QUOTED(a) #a
#define HEADER(a) QUOTED(a.hpp)
#include HEADER(MODEL)

namespace {

constexpr auto input_tensor = JOIN(MODEL, _input_tensor);
constexpr auto output_tensor = JOIN(MODEL, _output_tensor);

std::size_t tokens_of(std::size_t shape) { return input_tensor(shape, 0)->elements; }

class Decoder {
  public:
    // Appends tokens, and makes `next` the most likely one after them; returns whether that worked.
    bool append(std::size_t shape, const std::int32_t *ids)
    {
        if (const auto status = model_.step(shape, ids, logits_.data()); status != 0) {
            std::fprintf(stderr, "%s\n", JOIN(MODEL, _strerror)(status));
            return false;
        }
        next = static_cast<std::int32_t>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
        return true;
    }

    std::int32_t next = -1;

  private:
    MODEL::Model model_;
    std::vector<float> logits_ = std::vector<float>(output_tensor(0, 0)->elements);
};

} // namespace

int main(int argc, char **argv)
{
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s COUNT END ID...\n", argv[0]);
        return 2;
    }
    std::vector<std::int32_t> ids;
    for (int i = 3; i < argc; i++) {
        ids.push_back(static_cast<std::int32_t>(std::strtol(argv[i], nullptr, 10)));
    }
    std::size_t shapes = 0;
    while (input_tensor(shapes, 0) != nullptr) {
        shapes++;
    }
    Decoder decoder;
    for (std::size_t at = 0; at < ids.size();) {
        std::size_t shape = shapes - 1;
        while (shape > 0 && tokens_of(shape) > ids.size() - at) {
            shape--;
        }
        if (!decoder.append(shape, &ids[at])) {
            return 1;
        }
        at += tokens_of(shape);
    }
    const long end = std::strtol(argv[2], nullptr, 10);
    for (long count = std::strtol(argv[1], nullptr, 10); count > 0 && decoder.next != end; count--) {
        std::printf("%d\n", static_cast<int>(decoder.next));
        if (const std::int32_t last = decoder.next; !decoder.append(0, &last)) {
            return 1;
        }
    }
    return 0;
}
