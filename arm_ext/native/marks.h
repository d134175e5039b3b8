// SPDX-License-Identifier: Apache-2.0
// Counting instructions: the two marks that the QEMU plugin sees, set by TVM's own timer.
#ifndef ARM_EXT_NATIVE_MARKS_H_
#define ARM_EXT_NATIVE_MARKS_H_

namespace arm_ext {

/*!
 * \brief Makes "runtime.timer.cpu", and so every time_evaluator, count instructions instead of
 * time; registers "arm_ext.board.watch_region", which names a region of code to the plugin.
 * \param dump The file into which the plugin writes at the end mark. An instruction is reported as
 * a nanosecond.
 */
bool RegisterCountingTimer(const char* dump);

/*! \brief Registers "arm_ext.board.maps": the text of /proc/self/maps. */
bool RegisterMaps();

/*! \brief Registers "arm_ext.board.emulated", by whose presence a server says that it is. */
bool RegisterEmulated();

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_MARKS_H_
