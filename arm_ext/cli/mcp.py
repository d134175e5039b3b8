# SPDX-License-Identifier: Apache-2.0
"""`arm-ext mcp`."""

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from arm_ext.api.wording import in_python
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import ArmExtError, EnvError, UsageError


@click.command()
@click.argument("folder", type=PATH)
def mcp(folder: Path) -> None:
    """Serve the verbs to an agent over stdin and stdout, by the Model Context Protocol.

    Results are written inside FOLDER alone, packages run on emulated boards alone, and no tool loads a plug-in. The
    network is used by `compare`, which downloads other runtimes once, and where the first emulated board needs the
    runtime.
    """
    if importlib.util.find_spec("mcp") is None:
        raise EnvError("`arm-ext mcp` needs the package mcp: pip install 'mcp>=2.3,<3'")
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name one that an agent may write to")
    load_tvm()
    from mcp.server import MCPServer

    from arm_ext.api.agent import INSTRUCTIONS, AgentTools
    from arm_ext.common.version import __version__

    server = MCPServer("arm-ext", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = AgentTools(folder)
    for tool in (
        tools.compile,
        tools.report,
        tools.check,
        tools.explain,
        tools.profile,
        tools.advise,
        tools.compare,
        tools.targets,
        tools.operators,
    ):
        server.tool()(_telling(tool))
    server.run("stdio")


def _telling(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool whose errors for the user are its answer; others are defects, which the protocol hides."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except ArmExtError as error:
            # Error messages name Python arguments, which an agent can set, instead of command-line options.
            raise ToolError(in_python(str(error))) from error

    return called
