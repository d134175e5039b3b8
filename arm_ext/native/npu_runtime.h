// SPDX-License-Identifier: Apache-2.0
// The regions of one model on the NPU: what is kept between calls, and who may use it when.
#ifndef ARM_EXT_NATIVE_NPU_RUNTIME_H_
#define ARM_EXT_NATIVE_NPU_RUNTIME_H_

#include "npu_failure.h"
#include "npu_session.h"

/*! \brief A function that compiled models call by its name. */
#define ARM_EXT_ENTRY extern "C" __attribute__((visibility("default")))

namespace arm_ext {

/*!
 * \brief Runs a region on the NPU, or says that the CPU has to.
 * \param ran Whether the outputs are written; if not, they are as they were.
 * \return What to raise: that payload or arguments are wrong, or what failed where the user wants
 * that.
 */
Failure Run(const Call& call, bool* ran);

/*! \brief What ran so far, as JSON, to be freed; null if there is no memory. */
char* Status();

}  // namespace arm_ext

#endif  // ARM_EXT_NATIVE_NPU_RUNTIME_H_
