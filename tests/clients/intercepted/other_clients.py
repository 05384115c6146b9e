"""Clients for Node, Go, Rust and Java, and curl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.clients.intercepted.client import Client, Side, built, curl, java, node, old_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clients.intercepted.client import Program

_NODE = ("NODE_EXTRA_CA_CERTS",)
_BUNDLE = ("SSL_CERT_FILE",)
_CHAT = "{model: 'm-1', messages: [{role: 'user', content: 'hi'}]}"
_URL = "process.argv[1] + '/v1/chat/completions'"

_FETCH = f"""\
const headers = {{'Content-Type': 'application/json'}};
const answer = await fetch({_URL}, {{method: 'POST', headers, body: JSON.stringify({_CHAT})}});
console.log(await answer.text());
"""
_HTTPS = f"""\
import https from 'node:https';
const headers = {{'Content-Type': 'application/json'}};
const show = answer => answer.on('data', text => console.log(`${{text}}`));
https.request({_URL}, {{method: 'POST', headers}}, show).end(JSON.stringify({_CHAT}));
"""
_OPENAI = f"""\
import OpenAI from 'openai';
const baseURL = process.argv[1] + '/v1';
const client = new OpenAI({{baseURL, apiKey: 'k', maxRetries: 0}});
console.log((await client.chat.completions.create({_CHAT})).choices[0].message.content);
"""
_ANTHROPIC = f"""\
import Anthropic from '@anthropic-ai/sdk';
const client = new Anthropic({{baseURL: process.argv[1], apiKey: 'k', maxRetries: 0}});
console.log((await client.messages.create({{max_tokens: 9, ...{_CHAT}}})).content[0].text);
"""
_GOOGLE = """\
import {GoogleGenAI} from '@google/genai';
const client = new GoogleGenAI({apiKey: 'k', httpOptions: {baseUrl: process.argv[1]}});
console.log((await client.models.generateContent({model: 'm-1', contents: 'hi'})).text);
"""
_AXIOS = f"""\
import axios from 'axios';
console.log(JSON.stringify((await axios.post({_URL}, {_CHAT})).data));
"""
_WS = """\
import WebSocket from 'ws';
const socket = new WebSocket(process.argv[1].replace('https', 'wss') + '/v1/responses');
socket.on('unexpected-response', (_, answer) => console.log(answer.statusCode));
"""
_AWS = """\
import {BedrockRuntimeClient, ConverseCommand} from '@aws-sdk/client-bedrock-runtime';
const credentials = {accessKeyId: 'k', secretAccessKey: 's'};
const place = {region: 'us-east-1', endpoint: process.argv[1], credentials, maxAttempts: 1};
const messages = [{role: 'user', content: [{text: 'hi'}]}];
const asked = new ConverseCommand({modelId: 'm-1', messages});
console.log((await new BedrockRuntimeClient(place).send(asked)).output.message.content[0].text);
"""


def _rust(way: str) -> Callable[[], Program]:
    """Find the program of reqwest, for one of its ways to trust."""
    return built("rust-ask", "cargo", way)


_NEW = "Node from 22.21"
_OLD = "Node before 22.21"

OTHER_CLIENTS = (
    Client(_NEW, "fetch", node(_FETCH), Side.OPENED, _NODE),
    Client(_NEW, "https", node(_HTTPS), Side.OPENED, _NODE),
    Client(_NEW, "openai", node(_OPENAI), Side.OPENED, _NODE),
    Client(_NEW, "@anthropic-ai/sdk", node(_ANTHROPIC), Side.OPENED, _NODE),
    Client(_NEW, "@google/genai", node(_GOOGLE), Side.OPENED, _NODE),
    Client(_NEW, "axios", node(_AXIOS), Side.OPENED, _NODE),
    Client(_NEW, "ws", node(_WS), Side.BYPASSES),
    Client(_NEW, "@aws-sdk", node(_AWS), Side.BYPASSES),
    Client(_OLD, "axios", old_node(_AXIOS), Side.OPENED, _NODE),
    Client(_OLD, "fetch", old_node(_FETCH), Side.BYPASSES),
    Client(_OLD, "https", old_node(_HTTPS), Side.BYPASSES),
    Client(_OLD, "openai", old_node(_OPENAI), Side.BYPASSES),
    Client("Go", "net/http", built("go-ask", "go"), Side.OPENED, _BUNDLE),
    Client("Rust", "reqwest 0.13", _rust("0.13"), Side.OPENED, _BUNDLE),
    Client("Rust", "reqwest 0.12 with native roots", _rust("0.12-native"), Side.OPENED, _BUNDLE),
    Client("Rust", "reqwest 0.12 with webpki roots", _rust("0.12-webpki"), Side.DISTRUSTS),
    Client("Java", "HttpClient", java, Side.BYPASSES),
    Client("Shell", "curl", curl, Side.OPENED, ("CURL_CA_BUNDLE", "SSL_CERT_FILE")),
)
