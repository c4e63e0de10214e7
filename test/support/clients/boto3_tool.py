"""Drives boto3 for the tests: reads a request a line as JSON from stdin, prints an answer a line as JSON.

    boto3_tool.py ENDPOINT FILE      FILE receives the body of a download

An answer is {"output": ...}, or {"code": ...} with the S3 error code of a refusal.
"""

import json
import sys

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import ClientError

# Without this, boto3 of these years makes links with signature version 2.
V4 = Config(signature_version="s3v4")


def call(client, request, received):
    parameters = dict(request["parameters"])
    method = getattr(client, request["operation"].replace("-", "_"))
    if "send" not in request:
        output = method(**parameters)
    else:
        with open(request["send"], "rb") as body:
            output = method(Body=body, **parameters)
    body = output.pop("Body", None)
    if body is not None:
        with open(received, "wb") as file:
            for chunk in body.iter_chunks():
                file.write(chunk)
    return output


def walk(client, request, _received):
    paginator = client.get_paginator(request["operation"].replace("-", "_"))
    pages = paginator.paginate(**request["parameters"], PaginationConfig={"PageSize": request["pageSize"]})
    return pages.build_full_result()


def upload(client, request, _received):
    client.upload_file(request["file"], request["bucket"], request["key"], ExtraArgs=request.get("extra"))
    return {}


def download(client, request, _received):
    client.download_file(request["bucket"], request["key"], request["file"])
    return {}


def copy(client, request, _received):
    client.copy(request["source"], request["bucket"], request["key"])
    return {}


def presign(client, request, _received):
    method = request["operation"].replace("-", "_")
    return {"Url": client.generate_presigned_url(method, Params=request["parameters"])}


def presign_post(client, request, _received):
    form = client.generate_presigned_post(
        request["bucket"], request["key"], Fields=request["fields"], Conditions=request["conditions"]
    )
    return {"Form": form}


ACTIONS = {
    "call": call,
    "walk": walk,
    "upload": upload,
    "download": download,
    "copy": copy,
    "presign": presign,
    "presign_post": presign_post,
}


def main(endpoint, received):
    client = boto3.client("s3", endpoint_url=endpoint, config=V4)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"output": ACTIONS[request["do"]](client, request, received)}
        except ClientError as error:
            answer = {"code": error.response["Error"]["Code"]}
        except Boto3Error as error:
            answer = {"code": str(error)}
        print(json.dumps(answer, default=str), flush=True)


main(*sys.argv[1:])
