# SPDX-License-Identifier: Apache-2.0
"""Small models for boards."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from arm_ext.board import Board
from arm_ext.native.build import ffi_includes
from arm_ext.target.toolchain import LinkerRecord, link_shared

ROWS, COLUMNS = 7, 31

# Behaviour of `fault_model`'s kernel, selected by its input's only element; other values are copied.
SLEEP, COPY, ILLEGAL, SPIN, CRASH, RAISE = range(-1, 5)

_FAULTS = """
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>
static float *Data(const TVMFFIAny *arg) {
  return (float *)(arg->type_index == kTVMFFIDLTensorPtr ? (DLTensor *)arg->v_ptr
                                                          : (DLTensor *)(arg->v_obj + 1))->data;
}
int __tvm_ffi_fault(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result) {
  float what = *Data(&args[0]);
  if (what == 1) __asm__ volatile(".inst 0");
  for (volatile int spin = what == 2; spin;) {}
  while (what == -1) sleep(1);
  if (what == 3) *(volatile int *)8 = 0;
  if (what == 4) { TVMFFIErrorSetRaisedFromCStr("ValueError", "four is refused"); return -1; }
  *Data(&args[1]) = what;
  result->type_index = kTVMFFINone;
  return 0;
}
"""

# Does what a text asks for and returns errno; the text is the bytes of the input, a number each.
_HOSTILE = """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlpack/dlpack.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>
/* Of the files and processes of others; what it makes it removes again. */
static long Reach(const char *what, const char *word, const char *other) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  struct sched_param parameters = {0};
  char queue[] = "/arm-ext-canary";
  cpu_set_t first;
  long id = -1;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  if (!strcmp(what, "chmod")) return chmod(word, strtol(other, NULL, 8));
  if (!strcmp(what, "fchmod")) return fchmod(open(word, O_WRONLY | O_CREAT, 0600), 04755);
  if (!strcmp(what, "chown")) return chown(word, getuid(), getgid());
  if (!strcmp(what, "utime")) return utimensat(AT_FDCWD, word, NULL, 0);
  if (!strcmp(what, "setxattr")) return setxattr(word, "user.canary", "x", 1, 0);
  if (!strcmp(what, "getxattr")) return listxattr(word, NULL, 0);
  if (!strcmp(what, "watch")) return inotify_add_watch(inotify_init(), word, IN_ALL_EVENTS);
  if (!strcmp(what, "symlink")) return symlink(word, other);
  if (!strcmp(what, "link")) return link(word, other);
  if (!strcmp(what, "fifo")) return mkfifo(word, 0600);
  if (!strcmp(what, "messages"))
    return (id = msgget(IPC_PRIVATE, 0600)) < 0 ? -1 : msgctl(id, IPC_RMID, NULL);
  if (!strcmp(what, "memory"))
    return (id = shmget(IPC_PRIVATE, 4096, 0600)) < 0 ? -1 : shmctl(id, IPC_RMID, NULL);
  if (!strcmp(what, "semaphores"))
    return (id = semget(IPC_PRIVATE, 1, 0600)) < 0 ? -1 : semctl(id, 0, IPC_RMID);
  if (!strcmp(what, "queue"))
    return mq_open(queue, O_RDWR | O_CREAT, 0600, NULL) < 0 ? -1 : mq_unlink(queue);
  if (!strcmp(what, "listen")) {
    id = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = inet_addr(word);
    return bind(id, (struct sockaddr *)&at, sizeof(at)) < 0 ? -1 : listen(id, 1);
  }
  if (!strcmp(what, "priority")) return setpriority(PRIO_PROCESS, atoi(word), 7);
  if (!strcmp(what, "affinity")) return sched_setaffinity(atoi(word), sizeof(first), &first);
  if (!strcmp(what, "scheduler")) return sched_setscheduler(atoi(word), SCHED_BATCH, &parameters);
  return -2;
}
/* Whether a descriptor is a connection to a port. */
static int HasPeer(int port) {
  for (int fd = 0; fd < 256; fd++) {
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && ntohs(peer.sin_port) == port) return 1;
  }
  return 0;
}
static int Attempt(const char *text) {
  char what[32] = "", word[256] = "", other[256] = "";
  sscanf(text, "%31s %255s %255s", what, word, other);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(word))};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct rlimit limit;
  int fd;
  errno = 0;
  long done = Reach(what, word, other);
  if (!strcmp(what, "write")) done = (fd = open(word, O_WRONLY | O_CREAT, 0600)) < 0 ? -1 : write(fd, "x", 1);
  if (!strcmp(what, "read")) done = open(word, O_RDONLY);
  if (!strcmp(what, "list")) done = opendir(word) ? 0 : -1;
  if (!strcmp(what, "remove")) done = unlink(word);
  if (!strcmp(what, "folder")) done = mkdir(word, 0700);
  if (!strcmp(what, "rename")) done = rename(word, other);
  if (!strcmp(what, "connect"))
    done = connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to, sizeof(to));
  if (!strcmp(what, "fastopen"))
    done = sendto(socket(AF_INET, SOCK_STREAM, 0), "x", 1, 0x20000000, (struct sockaddr *)&to, sizeof(to));
  if (!strcmp(what, "datagram")) done = socket(AF_INET, SOCK_DGRAM, 0);
  if (!strcmp(what, "unix")) done = socket(AF_UNIX, SOCK_STREAM, 0);
  if (!strcmp(what, "fork") && (done = fork()) == 0) _exit(0);
  if (!strcmp(what, "system")) return system(word);
  if (!strcmp(what, "kill")) done = kill(atoi(word), SIGKILL);
  if (!strcmp(what, "limit")) done = prlimit(atoi(word), RLIMIT_CPU, NULL, &limit);
  if (!strcmp(what, "execute")) done = execl(word, word, NULL);
  if (!strcmp(what, "environment")) return getenv(word) == NULL;
  if (!strcmp(what, "peer")) return HasPeer(atoi(word));
  return done < 0 ? (errno ? errno : -1) : 0;
}
__attribute__((constructor)) static void AtLoad(void) { Attempt(AT_LOAD); }
static float *Data(const TVMFFIAny *arg) {
  return (float *)(arg->type_index == kTVMFFIDLTensorPtr ? (DLTensor *)arg->v_ptr
                                                          : (DLTensor *)(arg->v_obj + 1))->data;
}
int __tvm_ffi_attempt(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result) {
  char text[TEXT + 1] = "";
  for (int i = 0; i < TEXT; i++) text[i] = (char)Data(&args[0])[i];
  *Data(&args[1]) = Attempt(text);
  result->type_index = kTVMFFINone;
  return 0;
}
"""
_TEXT = 512


def add_relu_model(folder: Path, machine: str = "aarch64") -> Path:
    """model.so: f32[7, 31], f32[31] → relu(x + y), max over rows of x + y."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, COLUMNS), "float32"))
    y = relax.Var("y", relax.TensorType((COLUMNS,), "float32"))
    with builder.function("main", [x, y]):
        total = builder.emit(relax.op.add(x, y))
        builder.emit_func_output(relax.Tuple([relax.op.nn.relu(total), relax.op.max(total, axis=1)]))
    return _build(builder.get(), folder, machine, [])


def fault_model(folder: Path, machine: str = "aarch64") -> Path:
    """model.so: f32[1] → itself, or a failure that its value selects."""
    one = relax.TensorType((1,), "float32")
    builder = relax.BlockBuilder()
    what = relax.Var("what", one)
    with builder.function("main", [what]):
        builder.emit_func_output(relax.op.call_dps_packed("fault", (what,), one))
    source = folder / "fault.c"
    source.write_text(_FAULTS.replace(".inst 0", ".inst 0" if machine == "aarch64" else "ud2"))
    return _build(builder.get(), folder, machine, [*ffi_includes(), source])


def hostile_model(folder: Path, constructor: str = "") -> Path:
    """model.so: f32[512], the bytes of what it shall try → f32[1], errno of it; it tries `constructor` at its load."""
    builder = relax.BlockBuilder()
    text = relax.Var("text", relax.TensorType((_TEXT,), "float32"))
    with builder.function("main", [text]):
        result = relax.TensorType((1,), "float32")
        builder.emit_func_output(relax.op.call_dps_packed("attempt", (text,), result))
    source = folder / "hostile.c"
    source.write_text(_HOSTILE.replace("AT_LOAD)", f'"{constructor}")').replace("TEXT", str(_TEXT)))
    return _build(builder.get(), folder, "aarch64", [*ffi_includes(), source])


def words_for_hostile(*words: object) -> list[npt.NDArray[np.float32]]:
    """The input of `hostile_model` that makes it try something."""
    text = " ".join(map(str, words)).encode().ljust(_TEXT, b"\0")
    return [np.frombuffer(text, np.uint8).astype(np.float32)]


def attempt(board: Board, hostile: Path, what: str, *words: object) -> int:
    """What a `hostile_model` gives that tries something: 0 where it succeeds, errno where it does not."""
    return attempts(board, hostile, [" ".join(map(str, (what, *words)))])[0]


def attempts(board: Board, hostile: Path, texts: Sequence[str]) -> list[int]:
    """What a `hostile_model` gives that tries one thing after the other in one session; see `attempt`."""
    model = board.load(hostile)
    return [int(model.run(words_for_hostile(text))[0][0]) for text in texts]


def _build(module: tvm.IRModule, folder: Path, machine: str, extra: Sequence[str | Path]) -> Path:
    triple = f"{machine}-linux-gnu"
    so = folder / "model.so"

    def link(output: str, objects: Sequence[str], options: Sequence[str] = ()) -> LinkerRecord:
        return link_shared([*options, *objects, *extra], Path(output), triple=triple)

    executable = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "mtriple": triple}))
    executable.export_library(str(so), fcompile=link)
    return so
