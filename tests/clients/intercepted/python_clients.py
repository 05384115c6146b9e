"""Clients for Python."""

from __future__ import annotations

from tests.clients.intercepted.client import Client, Side, python

_BUNDLE = ("SSL_CERT_FILE",)
_REQUESTS_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_AWS_BUNDLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
_CHAT = "{'model': 'm-1', 'messages': [{'role': 'user', 'content': 'hi'}]}"
_LANE = "quickstarts"

_OPENAI = """\
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="k", max_retries=0)
chat = client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "hi"}])
print(chat.choices[0].message.content)
"""
_OPENAI_ASYNC = """\
import asyncio, openai, sys
client = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="k", max_retries=0)
asked = client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "hi"}])
print(asyncio.run(asked).choices[0].message.content)
"""
_ANTHROPIC = """\
import anthropic, sys
client = anthropic.Anthropic(base_url=sys.argv[1], api_key="k", max_retries=0)
chat = {"model": "m-1", "messages": [{"role": "user", "content": "hi"}]}
print(client.messages.create(max_tokens=9, **chat).content[0].text)
"""
_GOOGLE = """\
import sys
from google import genai
client = genai.Client(api_key="k", http_options={"base_url": sys.argv[1]})
print(client.models.generate_content(model="m-1", contents="hi").text)
"""
_GOOGLE_ASYNC = """\
import asyncio, sys
from google import genai
async def ask():
    async with genai.Client(api_key="k", http_options={"base_url": sys.argv[1]}).aio as client:
        print((await client.models.generate_content(model="m-1", contents="hi")).text)
asyncio.run(ask())
"""
_OLLAMA = """\
import ollama, sys
client = ollama.Client(host=sys.argv[1])
print(client.chat(model="m-1", messages=[{"role": "user", "content": "hi"}]).message.content)
"""
_LITELLM = """\
import os, sys
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no request for prices
import litellm
chat = {"model": "openai/m-1", "messages": [{"role": "user", "content": "hi"}]}
answer = litellm.completion(api_base=sys.argv[1] + "/v1", api_key="k", max_retries=0, **chat)
print(answer.choices[0].message.content)
"""
_LITELLM_ASYNC = """\
import asyncio, os, sys
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
chat = {"model": "openai/m-1", "messages": [{"role": "user", "content": "hi"}]}
asked = litellm.acompletion(api_base=sys.argv[1] + "/v1", api_key="k", max_retries=0, **chat)
print(asyncio.run(asked).choices[0].message.content)
"""
_BOTO3 = """\
import boto3, sys
from botocore.config import Config
client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=sys.argv[1],
    aws_access_key_id="k", aws_secret_access_key="s", config=Config(retries={"max_attempts": 0}))
asked = client.converse(modelId="m-1", messages=[{"role": "user", "content": [{"text": "hi"}]}])
print(asked["output"]["message"]["content"][0]["text"])
"""
_HTTPX = f"""\
import httpx, sys
print(httpx.post(sys.argv[1] + "/v1/chat/completions", json={_CHAT}).text)
"""
_HTTPX_ALONE = f"""\
import httpx, sys
client = httpx.Client(trust_env=False)
print(client.post(sys.argv[1] + "/v1/chat/completions", json={_CHAT}).text)
"""
_AIOHTTP = f"""\
import aiohttp, asyncio, sys
async def ask():
    async with aiohttp.ClientSession() as session:
        answer = await session.post(sys.argv[1] + "/v1/chat/completions", json={_CHAT})
        print(await answer.text())
asyncio.run(ask())
"""
_AIOHTTP_ENV = _AIOHTTP.replace("ClientSession()", "ClientSession(trust_env=True)")
_URLLIB = f"""\
import json, sys, urllib.request
asked = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps({_CHAT}).encode())
asked.add_header("Content-Type", "application/json")
print(urllib.request.urlopen(asked).read().decode())
"""
_URLLIB3 = f"""\
import sys, urllib3
url = sys.argv[1] + "/v1/chat/completions"
print(urllib3.PoolManager().request("POST", url, json={_CHAT}, retries=False).data.decode())
"""
_REQUESTS = f"""\
import requests, sys
print(requests.post(sys.argv[1] + "/v1/chat/completions", json={_CHAT}).text)
"""
_WEBSOCKETS = """\
import sys
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
try:
    connect(sys.argv[1].replace("https", "wss") + "/v1/responses")
except InvalidStatus as error:
    print(error.response.status_code)
"""

PYTHON_CLIENTS = (
    Client("Python", "openai", python(_OPENAI), Side.OPENED, _BUNDLE),
    Client("Python", "openai (async)", python(_OPENAI_ASYNC), Side.OPENED, _BUNDLE),
    Client("Python", "anthropic", python(_ANTHROPIC), Side.OPENED, _BUNDLE),
    Client("Python", "google-genai", python(_GOOGLE), Side.OPENED, _BUNDLE),
    Client("Python", "google-genai (async)", python(_GOOGLE_ASYNC), Side.OPENED, _BUNDLE),
    Client("Python", "ollama", python(_OLLAMA), Side.OPENED, _BUNDLE),
    Client("Python", "litellm", python(_LITELLM, _LANE), Side.OPENED, _BUNDLE),
    Client("Python", "litellm (async)", python(_LITELLM_ASYNC, _LANE), Side.OPENED, _BUNDLE),
    Client("Python", "httpx", python(_HTTPX), Side.OPENED, _BUNDLE),
    Client("Python", "aiohttp with `trust_env=True`", python(_AIOHTTP_ENV), Side.OPENED, _BUNDLE),
    Client("Python", "urllib", python(_URLLIB), Side.OPENED, _BUNDLE),
    Client(
        "Python",
        "websockets",
        python(_WEBSOCKETS),
        Side.OPENED,
        _BUNDLE,
        is_observed=False,
        says="426",
    ),
    Client("Python", "requests", python(_REQUESTS), Side.OPENED, _REQUESTS_BUNDLES),
    Client("Python", "boto3", python(_BOTO3, _LANE), Side.OPENED, _AWS_BUNDLES, is_observed=False),
    Client("Python", "httpx with `trust_env=False`", python(_HTTPX_ALONE), Side.BYPASSES),
    Client("Python", "aiohttp", python(_AIOHTTP), Side.BYPASSES),
    Client("Python", "urllib3", python(_URLLIB3), Side.BYPASSES),
)
