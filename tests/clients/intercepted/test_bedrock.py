"""boto3 through ``spantap run --intercept-host``, in front of a Bedrock that checks signatures."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lanes import find_programs
from tests.proxy.outside import Outside, outside
from tests.proxy.running_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "bedrock-runtime.us-east-1.amazonaws.com"
KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEY"

ASK = """\
import boto3
from botocore.config import Config
client = boto3.client("bedrock-runtime", config=Config(retries={"total_max_attempts": 1}))
asked = client.converse(
    modelId="anthropic.claude-demo-v1:0",
    messages=[{"role": "user", "content": [{"text": "Gr\\u00fc\\u00df dich"}]}])
print(asked["output"]["message"]["content"][0]["text"])
"""

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(name="python")
def _python() -> Path:
    """The Python that has boto3."""
    return find_programs("quickstarts") / "python"


@pytest.fixture(name="names")
def _names(python: Path, tmp_path: Path) -> Iterator[tuple[Outside, dict[str, str]]]:
    """The world outside, where all names lead to that Bedrock."""
    stub = Path(__file__).with_name("bedrock_stub.py")
    command = [str(python), str(stub), KEY_ID, SECRET]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            with outside(int(process.stdout.readline()), tmp_path) as found:
                yield found
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("secret", "status", "said"),
    [(SECRET, 0, "Hello\n"), ("another", 1, "")],
    ids=["its secret", "another secret"],
)
def test_a_signed_call_of_bedrock_arrives_as_it_was_signed(
    secret: str,
    status: int,
    said: str,
    python: Path,
    names: tuple[Outside, dict[str, str]],
    tmp_path: Path,
) -> None:
    """Path, heads and body arrive as signed. There is no span, because Converse is not observed."""
    it, variables = names
    keys = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": secret}
    region = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    runs = Runs(folder=tmp_path, variables=variables | keys | region)
    command = (str(python), "-W", "ignore", "-c", ASK)
    ended = runs.run("run", "--intercept-host", HOST, "--", *command)
    assert ended[:2] == (status, said), ended[2]
    assert it.hosts == [HOST]
    assert f"opened: {HOST} (1)" in ended[2]
    if status:
        assert "The signature does not match." in ended[2]
    assert runs.calls() == []
    runs.see_none_left()
