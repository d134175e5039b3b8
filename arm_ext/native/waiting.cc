// SPDX-License-Identifier: Apache-2.0
#include "waiting.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace arm_ext {
namespace {

// For a greeting, and again for the first request; a client on a slow network sends it a round trip
// after the answer to its greeting.
constexpr double kSilentSeconds = 5;

}  // namespace

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

WaitingClients::Greeting WaitingClients::Read(Client* client) {
  int header[2] = {};
  for (;;) {
    size_t whole = kHeader;
    if (client->got >= kHeader) {
      memcpy(header, client->bytes, kHeader);
      if (header[0] != kRpcMagic || header[1] < 0 || header[1] > kMaxKey) return Greeting::kWrong;
      whole += static_cast<size_t>(header[1]);
      if (client->got == whole) {
        client->bytes[whole] = '\0';
        return Greeting::kWhole;
      }
    }
    ssize_t n = recv(client->fd, client->bytes + client->got, whole - client->got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Greeting::kPart;
    if (n <= 0) return Greeting::kWrong;
    client->got += static_cast<size_t>(n);
  }
}

WaitingClients::Greeting WaitingClients::Request(int fd) {
  char first;  // which stays where the session reads it
  ssize_t n = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return Greeting::kPart;
  return n == 1 ? Greeting::kWhole : Greeting::kWrong;
}

void WaitingClients::Remove(int index) {
  count_--;
  memmove(clients_ + index, clients_ + index + 1,
          static_cast<size_t>(count_ - index) * sizeof(Client));
}

void WaitingClients::Add(int fd, bool answered, double timeout_s) {
  if (count_ == kMost) {
    close(clients_[0].fd);
    Remove(0);
  }
  Client* client = &clients_[count_++];
  client->fd = fd;
  client->deadline = Now() + kSilentSeconds;
  client->answered = answered;
  client->timeout_s = timeout_s;
  client->got = 0;
}

void WaitingClients::Await(int fd, double timeout_s) { Add(fd, true, timeout_s); }

int WaitingClients::Next(int owner, double until, ReadyClient* ready) {
  for (;;) {
    pollfd fds[2 + kMost] = {{listener_, POLLIN, 0}, {owner, POLLIN, 0}};
    double wake = until;
    for (int i = 0; i < count_; i++) {
      fds[2 + i] = {clients_[i].fd, POLLIN, 0};
      if (wake == 0 || clients_[i].deadline < wake) wake = clients_[i].deadline;
    }
    double now = Now();
    int wait_ms = wake == 0 ? -1 : wake <= now ? 0 : static_cast<int>((wake - now) * 1e3) + 1;
    if (poll(fds, static_cast<nfds_t>(2 + count_), wait_ms) < 0) continue;
    if (fds[1].revents != 0) return kOwnerGone;
    now = Now();
    for (int i = 0, polled = 2, polled_end = 2 + count_; polled < polled_end; polled++) {
      Client* client = &clients_[i];
      Greeting greeting = fds[polled].revents == 0 ? Greeting::kPart
                          : client->answered       ? Request(client->fd)
                                                   : Read(client);
      if (greeting == Greeting::kPart && now < client->deadline) {
        i++;
        continue;
      }
      int fd = client->fd;
      if (greeting == Greeting::kWhole) {
        ready->fd = fd;
        ready->asks = client->answered;
        ready->timeout_s = client->timeout_s;
        strcpy(ready->key, client->answered ? "" : client->bytes + kHeader);
      } else {
        close(fd);
      }
      Remove(i);
      if (greeting == Greeting::kWhole) return fd;
    }
    int fresh = fds[0].revents == 0 ? -1 : accept(listener_, nullptr, nullptr);
    if (fresh >= 0) Add(fresh, false, 0);
    if (until != 0 && now >= until) return kNobody;
  }
}

void WaitingClients::Close() {
  close(listener_);
  for (int i = 0; i < count_; i++) close(clients_[i].fd);
}

}  // namespace arm_ext
