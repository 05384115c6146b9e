"""A Bedrock that checks each signature with botocore's own signer, and prints its port.

The Python of the lane that has botocore runs it.
"""

from __future__ import annotations

import hmac
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEY_ID, SECRET = sys.argv[1:]

ANSWER = b"""{
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4},
    "metrics": {"latencyMs": 1}
}"""

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^,]+/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[^,]+), Signature=(?P<signature>[0-9a-f]+)"
)


class Bedrock(BaseHTTPRequestHandler):
    """Answers a conversation if what came is what was signed."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_signed = self._is_signed(body)
        answer = ANSWER if is_signed else b'{"message": "The signature does not match."}'
        self.send_response(200 if is_signed else 403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _is_signed(self, body: bytes) -> bool:
        shown = _AUTHORIZATION.fullmatch(self.headers["Authorization"])
        assert shown is not None
        signed = {name: self.headers[name] for name in shown["names"].split(";")}
        url = f"https://{self.headers['Host']}{self.path}"
        request = AWSRequest(method="POST", url=url, headers=signed, data=body)
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        signer = SigV4Auth(Credentials(KEY_ID, SECRET), shown["service"], shown["region"])
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return hmac.compare_digest(signer.signature(text, request), shown["signature"])


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Bedrock) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
