"""The calls that are counted, as bytes on the wire: written the way that OpenAI writes them."""

from __future__ import annotations

__all__ = ("answer", "in_reads", "request", "request_body", "stream", "streamed_answer")

READ_BYTES = 16 * 1024
"""Of a large read."""

_CHUNK = (
    b'data: {"id":"chatcmpl-Cost8f0Jk2","object":"chat.completion.chunk","created":1764000000,'
    b'"model":"m-1-2026-07-18","service_tier":"default","system_fingerprint":"fp_cost","choices":['
)
_NO_USAGE = b',"usage":null}\n\n'
_USAGE = b'{"prompt_tokens":12,"completion_tokens":198,"total_tokens":210}}\n\n'


def request_body(*, streams: bool, messages: int = 2) -> bytes:
    """A chat of so many messages."""
    said = [
        b'{"role":"%b","content":"Line %d\\nsays what was said, at some length, in \\"words\\"."}'
        % (b"assistant" if number % 2 else b"user", number)
        for number in range(messages)
    ]
    stream_member = b',"stream":true' if streams else b""
    return b'{"model":"m-1","temperature":0.2,"messages":[%b]%b}' % (b",".join(said), stream_member)


def request(*, streams: bool, messages: int = 2) -> bytes:
    """The same with the head that the ``openai`` SDK sends."""
    body = request_body(streams=streams, messages=messages)
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"
        b"Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\nAccept: application/json\r\n"
        b"Content-Type: application/json\r\nUser-Agent: OpenAI/Python 3.52.0\r\n"
        b"X-Stainless-Lang: python\r\nX-Stainless-Package-Version: 3.52.0\r\n"
        b"X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n"
        b"X-Stainless-Runtime-Version: 3.11.7\r\nX-Stainless-Async: false\r\n"
        b"X-Stainless-Retry-Count: 0\r\nX-Stainless-Read-Timeout: 600\r\n"
        b"Authorization: Bearer sk-cost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def answer() -> bytes:
    """A whole answer."""
    body = (
        b'{"id":"chatcmpl-Cost8f0Jk2","object":"chat.completion","created":1764000000,'
        b'"model":"m-1-2026-07-18","choices":[{"index":0,"message":{"role":"assistant",'
        b'"content":"Nothing is\\nas it seems.","refusal":null,"annotations":[]},"logprobs":null,'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":7,'
        b'"total_tokens":19,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},'
        b'"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}},'
        b'"service_tier":"default","system_fingerprint":"fp_cost"}'
    )
    return _head(b"application/json") + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def stream(chunks: int) -> list[bytes]:
    """The events of a stream of so many chunks, its first, last and usage chunk included."""
    texts = [
        b'"content":"%b"' % (b" word%d" % (number % 97) if number % 20 else b"\\n\\n")
        for number in range(chunks - 3)
    ]
    deltas = [b'"role":"assistant","content":"","refusal":null', *texts]
    return [
        *(_event(delta, b"null") for delta in deltas),
        _event(b"", b'"stop"'),
        _CHUNK + b'],"usage":' + _USAGE,
    ]


def _event(delta: bytes, reason: bytes) -> bytes:
    choice = b'{"index":0,"delta":{%b},"logprobs":null,"finish_reason":%b}]' % (delta, reason)
    return _CHUNK + choice + _NO_USAGE


def streamed_answer(chunks: int) -> list[bytes]:
    """The head of a stream, then each of its events as a chunk of the body, then its end."""
    events = [b"%x\r\n%b\r\n" % (len(event), event) for event in stream(chunks)]
    head = _head(b"text/event-stream; charset=utf-8") + b"Transfer-Encoding: chunked\r\n\r\n"
    return [head, *events, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]


def in_reads(pieces: list[bytes]) -> list[bytes]:
    """The same bytes in large reads."""
    whole = b"".join(pieces)
    return [whole[start : start + READ_BYTES] for start in range(0, len(whole), READ_BYTES)]


def _head(kind: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nDate: Mon, 24 Nov 2025 16:00:00 GMT\r\nContent-Type: %b\r\n"
        b"Connection: keep-alive\r\nopenai-organization: cost\r\nopenai-processing-ms: 312\r\n"
        b"openai-version: 2020-10-01\r\nx-ratelimit-limit-requests: 10000\r\n"
        b"x-ratelimit-remaining-requests: 9999\r\nx-request-id: req_0123456789abcdef\r\n"
        b"Server: cloudflare\r\n" % kind
    )
