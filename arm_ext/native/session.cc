// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffi.h"

namespace arm_ext {
namespace {

// A client that left has its session ended by the server loop at once, unless a kernel is running.
constexpr double kGraceAfterClientLeft = 1.0;

/*! \brief "tvm.rpc.server.workpath": a file of the client, by name, in the session's folder. */
int WorkPath(void* folder, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const char* name = num_args == 1 ? TextOf(args[0]) : nullptr;
  if (name == nullptr) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "workpath takes a file name");
    return -1;
  }
  char path[PATH_MAX];
  if (name[0] == '/') {
    snprintf(path, sizeof(path), "%s", name);
  } else {
    snprintf(path, sizeof(path), "%s/%s", static_cast<const char*>(folder), name);
  }
  TVMFFIByteArray bytes = Bytes(path);
  return TVMFFIStringFromByteArray(&bytes, result);
}

/*! \brief "tvm.rpc.server.load_module": loads an uploaded shared library. */
int LoadModule(void* folder, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  TVMFFIAny path = {};
  if (WorkPath(folder, args, num_args, &path) != 0) return -1;
  int status = CallGlobal("ffi.ModuleLoadFromFile", &path, 1, result);
  if (path.type_index == kTVMFFIStr) TVMFFIObjectDecRef(path.v_obj);
  return status;
}

[[noreturn]] void Serve(int client, const char* folder) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  TVMFFIAny fd = IntArg(client), none;
  bool ready = chdir(folder) == 0 && SetGlobal("tvm.rpc.server.workpath", WorkPath, folder) &&
               SetGlobal("tvm.rpc.server.load_module", LoadModule, folder);
  _exit(ready && CallGlobal("rpc.ServerLoop", &fd, 1, &none) == 0 ? 0 : 1);
}

enum class End { kExited, kTimeout, kClientLeft, kOwnerGone };

/*! \brief Waits until the session's process exits (`alive` reports its end) or must be killed. */
End Watch(int client, int alive, int owner, double timeout_s) {
  double deadline = timeout_s > 0 ? Now() + timeout_s : 0;
  bool left = false;
  for (;;) {
    pollfd fds[] = {{alive, POLLIN, 0}, {owner, POLLIN, 0}, {left ? -1 : client, POLLRDHUP, 0}};
    int wait_ms = deadline == 0 ? -1 : static_cast<int>((deadline - Now()) * 1e3) + 1;
    if (deadline != 0 && wait_ms <= 0) return left ? End::kClientLeft : End::kTimeout;
    if (poll(fds, 3, wait_ms) <= 0) continue;
    if (fds[0].revents != 0) return End::kExited;
    if (fds[1].revents != 0) return End::kOwnerGone;
    if (fds[2].revents != 0) {
      left = true;
      deadline = Now() + kGraceAfterClientLeft;
    }
  }
}

/*! \brief Tells a client that waits for an answer why there will be none. */
void ReturnException(int client, const char* message) {
  TVMFFIAny args[] = {IntArg(client), StrArg(message)}, none;
  CallGlobal("rpc.ReturnException", args, 2, &none);
}

void ReportEnd(int client, End end, int status, double timeout_s) {
  char message[160];
  if (end == End::kTimeout) {
    snprintf(message, sizeof(message), "RPCSessionTimeoutError: the session's %g s are over",
             timeout_s);
  } else if (end == End::kExited && WIFSIGNALED(status)) {
    // strsignal would do, but a client matches on the name.
    const char* name = WTERMSIG(status) == SIGILL ? "SIGILL" : strsignal(WTERMSIG(status));
    snprintf(message, sizeof(message), "RPCError: the session died by signal %d (%s)",
             WTERMSIG(status), name);
  } else {
    return;
  }
  fprintf(stderr, "%s\n", message);
  ReturnException(client, message);
}

}  // namespace

void RemoveTree(const char* folder) {
  constexpr int kOpenFolders = 16;
  nftw(
      folder, [](const char* path, const struct stat*, int, FTW*) { return remove(path); },
      kOpenFolders, FTW_DEPTH | FTW_PHYS);
}

void RunSession(int client, double timeout_s, const char* work, int owner, WaitingClients* waiting,
                Tracker* tracker) {
  char folder[PATH_MAX];
  int alive[2];
  snprintf(folder, sizeof(folder), "%s/session-XXXXXX", work);
  if (mkdtemp(folder) == nullptr || pipe(alive) != 0) {
    perror("session");
    close(client);
    return;
  }
  pid_t child = fork();
  if (child == 0) {
    close(alive[0]);
    waiting->Close();
    if (tracker != nullptr) tracker->Drop();
    Serve(client, folder);
  }
  close(alive[1]);
  End end = child < 0 ? End::kExited : Watch(client, alive[0], owner, timeout_s);
  int status = 0;
  if (child > 0) {
    if (end != End::kExited) kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ReportEnd(client, end, status, timeout_s);
  }
  close(alive[0]);
  close(client);
  RemoveTree(folder);
}

}  // namespace arm_ext
