/* Whether an element of a row comes before another one: of equal ones the first. */
static int before_@type@_@index@(const @ctype@ *row, size_t stride, size_t one, size_t other, int rising)
{
    @ctype@ a = row[one * stride];
    @ctype@ b = row[other * stride];
    if (a < b || a > b) {
        return rising ? a < b : a > b;
    }
    return one < other;
}

/* Restores a heap of indices whose root comes last, below `at`. */
static void sift_@type@_@index@(const @ctype@ *row, size_t stride, @cindex@ *heap, size_t size, size_t at, int rising)
{
    for (;;) {
        size_t last = at;
        for (size_t child = 2 * at + 1; child < size && child <= 2 * at + 2; child++) {
            if (before_@type@_@index@(row, stride, (size_t)heap[last * stride], (size_t)heap[child * stride], rising)) {
                last = child;
            }
        }
        if (last == at) {
            return;
        }
        @cindex@ moved = heap[at * stride];
        heap[at * stride] = heap[last * stride];
        heap[last * stride] = moved;
        at = last;
    }
}

/* The first `count` elements of each row, in order, and their indices. */
static void sort_@type@_@index@(const void *from, void *into, void *indices, size_t outer, size_t length, size_t inner,
                                size_t count, int rising)
{
    for (size_t i = 0; count != 0 && i < outer * inner; i++) {
        size_t block = i / inner;
        size_t lane = i % inner;
        const @ctype@ *row = (const @ctype@ *)from + block * length * inner + lane;
        @ctype@ *values = (@ctype@ *)into + block * count * inner + lane;
        @cindex@ *heap = (@cindex@ *)indices + block * count * inner + lane;
        for (size_t k = 0; k < count; k++) {
            heap[k * inner] = (@cindex@)k;
        }
        for (size_t at = count / 2; at-- > 0;) {
            sift_@type@_@index@(row, inner, heap, count, at, rising);
        }
        for (size_t k = count; k < length; k++) {
            if (before_@type@_@index@(row, inner, k, (size_t)heap[0], rising)) {
                heap[0] = (@cindex@)k;
                sift_@type@_@index@(row, inner, heap, count, 0, rising);
            }
        }
        for (size_t size = count; size-- > 1;) {
            @cindex@ last = heap[0];
            heap[0] = heap[size * inner];
            heap[size * inner] = last;
            sift_@type@_@index@(row, inner, heap, size, 0, rising);
        }
        for (size_t k = 0; k < count; k++) {
            values[k * inner] = row[(size_t)heap[k * inner] * inner];
        }
    }
}

