# SPDX-License-Identifier: Apache-2.0
"""One exception class per exit code. A message says what is wrong, where, and what to do."""


class ArmExtError(Exception):
    """Base of every error that is shown to a user as a message, not as a traceback."""

    exit_code = 4


class ModelError(ArmExtError):
    """A finding about the model or its numbers: unsupported operator, tolerance missed, budget exceeded."""

    exit_code = 1


class UsageError(ArmExtError):
    """A wrong argument, option or input file."""

    exit_code = 2


class EnvError(ArmExtError):
    """Raised if this machine or the board lacks something.

    The message names the command that installs or repairs it.
    """

    exit_code = 3


class InternalError(ArmExtError):
    """A defect of the compiler itself, found by its own checks."""

    exit_code = 4


class KernelError(InternalError):
    """A kernel for which no machine code could be generated.

    Attributes:
        symbol: Name of the kernel's function.
    """

    def __init__(self, symbol: str, reason: str) -> None:
        """Make the message from the kernel's symbol and the code generator's own message."""
        super().__init__(
            f"the code generator fails at the kernel {symbol}: {reason}. This is a defect of arm-ext; "
            "`arm-ext compile MODEL --save-node NAME` writes a node for a report of it"
        )
        self.symbol = symbol
