"""Drives boto3 for the tests: reads a request a line as JSON from stdin, prints an answer a line as JSON.

    boto3_tool.py ENDPOINT FILE      FILE receives the body of a download

An answer is {"output": ...}, or {"code": ...} with the S3 error code of a refusal.
"""

import json
import sys

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

# S3Transfer's own limit is 8 MiB; the tests want one PUT.
ONE_PUT = TransferConfig(multipart_threshold=256 * 1024 * 1024)


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
    client.upload_file(request["send"], request["bucket"], request["key"], Config=ONE_PUT)
    return {}


def main(endpoint, received):
    client = boto3.client("s3", endpoint_url=endpoint)
    actions = {"call": call, "walk": walk, "upload": upload}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"output": actions[request["do"]](client, request, received)}
        except ClientError as error:
            answer = {"code": error.response["Error"]["Code"]}
        print(json.dumps(answer, default=str), flush=True)


main(*sys.argv[1:])
