"""Objects through a client for Python: a line of JSON a request on stdin, one an answer on stdout."""

import json
import os
import sys

ENDPOINT, ACCESS_KEY, SECRET_KEY = (
    os.environ[name] for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
)
PIECE = 1 << 20


def pieces(path):
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


class PyArrow:
    """The AWS SDK for C++, below pyarrow.fs."""

    def __init__(self):
        from pyarrow import fs

        self.fs = fs
        self.s3 = fs.S3FileSystem(
            endpoint_override=ENDPOINT,
            region="us-east-1",
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )

    def put(self, file, bucket, key):
        with self.s3.open_output_stream(f"{bucket}/{key}") as target:
            for piece in pieces(file):
                target.write(piece)

    def get(self, bucket, key, file):
        with self.s3.open_input_stream(f"{bucket}/{key}") as source, open(file, "wb") as target:
            while piece := source.read(PIECE):
                target.write(piece)

    def range(self, bucket, key, first, last, file):
        with self.s3.open_input_file(f"{bucket}/{key}") as source, open(file, "wb") as target:
            target.write(source.read_at(last + 1 - first, first))

    def size(self, bucket, key):
        info = self.s3.get_file_info(f"{bucket}/{key}")
        if info.type != self.fs.FileType.File:
            raise FileNotFoundError(key)
        return info.size

    def list(self, bucket, prefix):
        selector = self.fs.FileSelector(f"{bucket}/{prefix}".rstrip("/"), recursive=True)
        infos = self.s3.get_file_info(selector)
        return [info.path.removeprefix(f"{bucket}/") for info in infos if info.is_file]

    def copy(self, bucket, key, to):
        self.s3.copy_file(f"{bucket}/{key}", f"{bucket}/{to}")

    def remove(self, bucket, keys):
        for key in keys:
            self.s3.delete_file(f"{bucket}/{key}")


class Obstore:
    """object_store for Rust, which delta-rs and Lance stand on as well."""

    def __init__(self):
        import obstore

        self.obstore = obstore

    def store(self, bucket):
        from obstore.store import S3Store

        return S3Store(
            bucket,
            endpoint=ENDPOINT,
            region="us-east-1",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def put(self, file, bucket, key):
        with open(file, "rb") as source:
            self.obstore.put(self.store(bucket), key, source)

    def put_new(self, file, bucket, key):
        with open(file, "rb") as source:
            self.obstore.put(self.store(bucket), key, source, mode="create")

    def get(self, bucket, key, file):
        with open(file, "wb") as target:
            for piece in self.obstore.get(self.store(bucket), key):
                target.write(piece)

    def range(self, bucket, key, first, last, file):
        with open(file, "wb") as target:
            target.write(self.obstore.get_range(self.store(bucket), key, start=first, end=last + 1))

    def size(self, bucket, key):
        return self.obstore.head(self.store(bucket), key)["size"]

    def list(self, bucket, prefix):
        return [meta["path"] for page in self.obstore.list(self.store(bucket), prefix) for meta in page]

    def copy(self, bucket, key, to):
        self.obstore.copy(self.store(bucket), key, to)

    def remove(self, bucket, keys):
        self.obstore.delete(self.store(bucket), keys)


class SmartOpen:
    """smart_open, over boto3; it has no word for copies and deletions."""

    def __init__(self):
        import boto3
        import smart_open

        self.open_uri = smart_open.open
        self.s3 = smart_open.s3
        self.client = boto3.client("s3")

    def open(self, bucket, key, mode):
        return self.open_uri(f"s3://{bucket}/{key}", mode, transport_params={"client": self.client})

    def put(self, file, bucket, key):
        with self.open(bucket, key, "wb") as target:
            for piece in pieces(file):
                target.write(piece)

    def get(self, bucket, key, file):
        with self.open(bucket, key, "rb") as source, open(file, "wb") as target:
            while piece := source.read(PIECE):
                target.write(piece)

    def range(self, bucket, key, first, last, file):
        with self.open(bucket, key, "rb") as source, open(file, "wb") as target:
            source.seek(first)
            target.write(source.read(last + 1 - first))

    def size(self, bucket, key):
        with self.open(bucket, key, "rb") as source:
            return source.seek(0, os.SEEK_END)

    def list(self, bucket, prefix):
        # Its walk reads each object that it is not told to leave out.
        keys = []
        for _ in self.s3.iter_bucket(bucket, prefix=prefix, workers=1, accept_key=keys.append):
            pass
        return keys


class TorchConnector:
    """aws-c-s3, which is below the connector for PyTorch and below mountpoint: it asks for ranges alone."""

    def __init__(self):
        from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

        self.s3 = MountpointS3Client(
            region="us-east-1", endpoint=ENDPOINT, force_path_style=True, max_attempts=1
        )

    def put(self, file, bucket, key):
        target = self.s3.put_object(bucket, key)
        for piece in pieces(file):
            target.write(piece)
        target.close()

    def get(self, bucket, key, file):
        with open(file, "wb") as target:
            for piece in self.s3.get_object(bucket, key):
                target.write(piece)

    def range(self, bucket, key, first, last, file):
        with open(file, "wb") as target:
            for piece in self.s3.get_object(bucket, key, start=first, end=last + 1):
                target.write(piece)

    def size(self, bucket, key):
        return self.s3.head_object(bucket, key).size

    def list(self, bucket, prefix):
        return [info.key for page in self.s3.list_objects(bucket, prefix) for info in page.object_info]

    def copy(self, bucket, key, to):
        self.s3.copy_object(bucket, key, bucket, to)

    def remove(self, bucket, keys):
        for key in keys:
            self.s3.delete_object(bucket, key)


CLIENTS = {
    "pyarrow": PyArrow,
    "obstore": Obstore,
    "smart_open": SmartOpen,
    "s3torchconnectorclient": TorchConnector,
}


def main(name):
    client = CLIENTS[name]()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"output": getattr(client, request["verb"])(**request["given"])}
        except Exception as error:  # Each library has errors of its own; a test looks for what they say.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main(*sys.argv[1:])
