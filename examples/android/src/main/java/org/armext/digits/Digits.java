// SPDX-License-Identifier: Apache-2.0
package org.armext.digits;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/** A classifier of handwritten digits; one thread at a time uses an instance. */
public final class Digits implements AutoCloseable {
    static {
        System.loadLibrary("digits_jni");
    }

    private long handle;
    private final FloatBuffer image;
    private final FloatBuffer logits;

    public Digits() {
        handle = create();
        if (handle == 0) {
            throw new OutOfMemoryError("no memory for the model's arena");
        }
        image = floats(image(handle));
        logits = floats(logits(handle));
    }

    /** Returns the most likely digit of an image of 64 pixels from 0 to 1, row by row. */
    public int classify(float[] pixels) {
        if (handle == 0) {
            throw new IllegalStateException("closed");
        }
        if (pixels.length != image.capacity()) {
            throw new IllegalArgumentException("takes " + image.capacity() + " pixels, not " + pixels.length);
        }
        image.clear();
        image.put(pixels);
        String failed = run(handle);
        if (failed != null) {
            throw new IllegalStateException(failed);
        }
        int best = 0;
        for (int digit = 1; digit < logits.capacity(); digit++) {
            if (logits.get(digit) > logits.get(best)) {
                best = digit;
            }
        }
        return best;
    }

    @Override
    public void close() {
        destroy(handle);
        handle = 0;
    }

    private static FloatBuffer floats(ByteBuffer bytes) {
        return bytes.order(ByteOrder.nativeOrder()).asFloatBuffer();
    }

    private static native long create();

    private static native void destroy(long handle);

    private static native ByteBuffer image(long handle);

    private static native ByteBuffer logits(long handle);

    private static native String run(long handle);
}
