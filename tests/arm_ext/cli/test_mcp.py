# SPDX-License-Identifier: Apache-2.0
"""An agent's client calls the tools over stdin and stdout, as an agent would."""

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from arm_ext.api import digits

MODEL = str(digits.model_path())


def _called(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[tuple[bool, Any]]:
    """Return for each call whether it failed, and its answer: a document, or the error."""

    async def session() -> list[tuple[bool, Any]]:
        found: list[tuple[bool, Any]] = []
        server = StdioServerParameters(command=sys.executable, args=["-m", "arm_ext", "mcp", str(folder)])
        async with Client(server) as client:
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                failed = bool(answer.is_error)
                found.append((failed, answer.content[0].text if failed else answer.structured_content))
        return found

    return anyio.run(session)


def test_an_agent_compiles_checks_and_profiles(tmp_path: Path) -> None:
    compiled, checked, profiled, explained = _called(
        tmp_path,
        ("compile", {"model": MODEL, "output": "d.armpkg", "target": "raspberry-pi-5"}),
        ("check", {"package": "d.armpkg"}),
        ("profile", {"package": str(tmp_path / "d.armpkg")}),
        ("explain", {"model": MODEL, "target": "cortex-a76"}),
    )
    assert not any(failed for failed, _ in (compiled, checked, profiled, explained))
    assert compiled[1]["package"] == str(tmp_path / "d.armpkg")
    files = [path for path in (tmp_path / "d.armpkg").iterdir() if path.name != "manifest.json"]
    assert compiled[1]["bytes"] == sum(path.stat().st_size for path in files)
    assert "Costliest layers" in compiled[1]["page"] or "Layers, the costliest first" in compiled[1]["page"]
    assert [each["passed"] for each in checked[1]["outputs"]] == [True]
    shares = [call["share"] for call in profiled[1]["calls"]]
    assert shares == sorted(shares, reverse=True)
    assert "no time on a board" in profiled[1]["note"]
    assert explained[1]["layers"][0]["operator"] == "Conv"


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    answers = _called(
        folder,
        *(
            ("compile", {"model": MODEL, "output": path})
            for path in ("../p", str(tmp_path / "p"), "link/p", "")
        ),
        ("compile", {"model": str(tmp_path / "none.onnx"), "output": "p"}),
        ("operators", {"format": "caffe"}),
        ("compile", {"model": MODEL, "output": "\0p"}),
        ("check", {"package": "p", "board": "localhost:9090"}),
    )
    assert all(failed for failed, _ in answers)
    assert all("is not in the folder" in said for _, said in answers[:4])
    assert "no such model file" in answers[4][1]
    assert "'caffe' is none of onnx, pytorch, tflite, stablehlo" in answers[5][1]
    assert "is no name of a folder" in answers[6][1]
    assert "agents have emulated boards alone" in answers[7][1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside"]
