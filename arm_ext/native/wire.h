// SPDX-License-Identifier: Apache-2.0
// Whole reads and writes on a socket.
#ifndef ARM_EXT_NATIVE_WIRE_H_
#define ARM_EXT_NATIVE_WIRE_H_

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

namespace arm_ext {

/*! \brief Fills `data`; false at end of stream, on an error and on the socket's receive timeout. */
inline bool ReadAll(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size != 0) {
    ssize_t n = read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

/*! \brief Writes all of `data`; false if the peer is gone. */
inline bool WriteAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size != 0) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_WIRE_H_
