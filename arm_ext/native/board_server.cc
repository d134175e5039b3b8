// SPDX-License-Identifier: Apache-2.0
// An RPC server for one board on the loopback interface, speaking the protocol of
// tvm.exec.rpc_server.
//
//   board_server --work FOLDER [--dump FILE] [--tracker HOST:PORT --key KEY]
//
// Prints "READY <port>" and serves one client after the other, each in a process of its own. Ends
// when its standard input ends, that is, when the process that started it is gone, and takes FOLDER
// with it.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "marks.h"
#include "session.h"
#include "tracker.h"
#include "waiting.h"
#include "wire.h"

namespace arm_ext {
namespace {

constexpr int kCodeMismatch = kRpcMagic + 2;  // tvm/rpc/base.py
constexpr double kPingSeconds = 2;
constexpr int kOwner = STDIN_FILENO;

struct Options {
  const char* work = nullptr;
  const char* dump = nullptr;
  const char* tracker = nullptr;
  const char* key = "";
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const char* value = argv[i + 1];
    if (strcmp(argv[i], "--work") == 0)
      options->work = value;
    else if (strcmp(argv[i], "--dump") == 0)
      options->dump = value;
    else if (strcmp(argv[i], "--tracker") == 0)
      options->tracker = value;
    else if (strcmp(argv[i], "--key") == 0)
      options->key = value;
    else
      return false;
  }
  return argc % 2 == 1 && options->work != nullptr;
}

/*! \brief Loads the runtime so that uploaded modules find its symbols, as under the stock Python
 * server. */
bool LoadRuntime() {
  static const char* const kLibraries[] = {"libtvm_runtime.so", "libtvm_runtime_extra.so"};
  for (const char* library : kLibraries) {
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      fprintf(stderr, "%s\n", dlerror());
      return false;
    }
  }
  return true;
}

/*! \brief Listens on a free loopback port; -1 on failure. */
int Listen(int* port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr* any = reinterpret_cast<sockaddr*>(&address);
  // Of clients that come while a session runs, some may be silent.
  constexpr int kBacklog = 512;
  if (fd < 0 || bind(fd, any, size) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, any, &size) != 0) {
    perror("listen");
    return -1;
  }
  *port = ntohs(address.sin_port);
  return fd;
}

/*!
 * \brief The protocol's answer to a greeting.
 * \param greeting What the client said; cut behind its key.
 * \param match The key that the client must name ("client:<match>").
 * \param key The key by which the server answers.
 * \param timeout_s Receives the client's "-timeout=", 0 if it gave none.
 */
bool Answer(int client, char* greeting, const char* match, const char* key, double* timeout_s) {
  int one = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const char* timeout = strstr(greeting, " -timeout=");
  *timeout_s = timeout == nullptr ? 0 : atof(timeout + strlen(" -timeout="));
  greeting[strcspn(greeting, " ")] = '\0';
  char expected[512], answer[512];
  snprintf(expected, sizeof(expected), "client:%s", match);
  if (strcmp(greeting, expected) != 0) {
    WriteAll(client, &kCodeMismatch, sizeof(kCodeMismatch));
    return false;
  }
  int size = snprintf(answer, sizeof(answer), "server:%s", key);
  return WriteAll(client, &kRpcMagic, sizeof(kRpcMagic)) && WriteAll(client, &size, sizeof(size)) &&
         WriteAll(client, answer, static_cast<size_t>(size));
}

/*!
 * \brief Waits for a client that has a request, and answers the greetings of clients meanwhile.
 * \return Whether there is one; false when the owner is gone.
 */
bool Accept(const Options& options, WaitingClients* waiting, Tracker* tracker, ReadyClient* ready) {
  double ping = tracker == nullptr ? 0 : Now() + kPingSeconds;
  for (;;) {
    int client = waiting->Next(kOwner, ping, ready);
    if (client == WaitingClients::kOwnerGone) return false;
    if (client == WaitingClients::kNobody) {
      tracker->Ping();
      ping = Now() + kPingSeconds;
      continue;
    }
    if (ready->asks) return true;
    double timeout_s = 0;
    const char* match = tracker == nullptr ? options.key : tracker->match_key();
    if (Answer(client, ready->key, match, options.key, &timeout_s))
      waiting->Await(client, timeout_s);
    else
      close(client);
  }
}

void ServeClients(int listener, const Options& options, Tracker* tracker) {
  static WaitingClients waiting;  // too large for a stack
  waiting.Listen(listener);
  static ReadyClient ready;
  for (;;) {
    if (tracker != nullptr) tracker->Offer();
    if (!Accept(options, &waiting, tracker, &ready)) return;
    RunSession(ready.fd, ready.timeout_s, options.work, kOwner, &waiting, tracker);
  }
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    fprintf(stderr,
            "usage: board_server --work FOLDER [--dump FILE] [--tracker HOST:PORT --key KEY]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  int port = 0, listener = -1;
  if (!LoadRuntime() || !RegisterMaps() || !RegisterEmulated() ||
      (options.dump && !RegisterCountingTimer(options.dump)) || (listener = Listen(&port)) < 0) {
    return 1;
  }
  printf("READY %d\n", port);
  fflush(stdout);
  Tracker tracker(options.tracker, options.key, port);
  ServeClients(listener, options, options.tracker == nullptr ? nullptr : &tracker);
  RemoveTree(options.work);
  return 0;
}

}  // namespace
}  // namespace arm_ext

int main(int argc, char** argv) { return arm_ext::Main(argc, argv); }
