// SPDX-License-Identifier: Apache-2.0
#include "tracker.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

namespace arm_ext {
namespace {

// tvm/rpc/base.py: the tracker's magic and the TrackerCode values that a server sends.
constexpr int kTrackerMagic = 0x2F271;
constexpr int kPut = 3;
constexpr int kUpdateInfo = 5;
constexpr int kPendingMatchKeys = 7;
// Pings after which an offer counts as taken by a client that never came (TVM's own server: 4 to 6
// s).
constexpr int kUnmatchedLimit = 3;
constexpr int kMaxReply = 16 << 20;

int Dial(const char* address) {
  char host[256];
  snprintf(host, sizeof(host), "%s", address);
  char* colon = strrchr(host, ':');
  if (colon == nullptr) return -1;
  *colon = '\0';
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0) return -1;
  int fd = socket(found->ai_family, SOCK_STREAM, 0);
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

}  // namespace

void Tracker::Drop() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool Tracker::Connect() {
  fd_ = Dial(address_);
  int magic = kTrackerMagic;
  if (fd_ < 0 || !WriteAll(fd_, &magic, sizeof(magic)) || !ReadAll(fd_, &magic, sizeof(magic)) ||
      magic != kTrackerMagic) {
    fprintf(stderr, "no RPC tracker at %s\n", address_);
    Drop();
    return false;
  }
  char message[512];
  snprintf(message, sizeof(message), "[%d, {\"key\": \"server:%s\", \"addr\": [null, %d]}]",
           kUpdateInfo, key_, port_);
  bool offered;
  return Request(message, &offered);
}

/*! \brief Sends a JSON message and reads the answer; `offered` says whether our match key stands in
 * it. */
bool Tracker::Request(const char* message, bool* offered) {
  int size = static_cast<int>(strlen(message));
  char* reply = nullptr;
  bool done = WriteAll(fd_, &size, sizeof(size)) &&
              WriteAll(fd_, message, static_cast<size_t>(size)) &&
              ReadAll(fd_, &size, sizeof(size)) && size >= 0 && size < kMaxReply &&
              (reply = static_cast<char*>(calloc(static_cast<size_t>(size) + 1, 1))) != nullptr &&
              ReadAll(fd_, reply, static_cast<size_t>(size));
  *offered = done && match_key_[0] != '\0' && strstr(reply, match_key_) != nullptr;
  free(reply);
  if (!done) Drop();
  return done;
}

void Tracker::Offer() {
  unmatched_pings_ = 0;
  if (fd_ < 0 && !Connect()) return;
  // Clients split the key at its last colon; a process and an offer number make it unique at a
  // tracker.
  snprintf(match_key_, sizeof(match_key_), "%s:%d.%ld.%u", key_, getpid(),
           static_cast<long>(time(nullptr)), ++offers_);
  char message[1024];
  snprintf(message, sizeof(message), "[%d, \"%s\", [%d, \"%s\"], null]", kPut, key_, port_,
           match_key_);
  bool offered;
  Request(message, &offered);
}

void Tracker::Ping() {
  char message[16];
  snprintf(message, sizeof(message), "[%d]", kPendingMatchKeys);
  bool offered = false;
  if (fd_ < 0 || !Request(message, &offered)) return Offer();
  unmatched_pings_ = offered ? 0 : unmatched_pings_ + 1;
  if (unmatched_pings_ >= kUnmatchedLimit) Offer();
}

}  // namespace arm_ext
