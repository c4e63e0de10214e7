"""One step with a table: `tables.py <format> <step>`, with what it needs as JSON on stdin; prints JSON."""

import json
import os
import sys
from datetime import datetime, timedelta, timezone

import pyarrow as pa

ENDPOINT, ACCESS_KEY, SECRET_KEY = (
    os.environ[name] for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
)
# What stands on object_store for Rust: credentials are those of the environment.
OBJECT_STORE = {"allow_http": "true", "aws_endpoint": ENDPOINT, "aws_region": "us-east-1"}


def rows(writer, batch, count):
    """Rows that no other batch of any writer has."""
    ids = [f"{writer}/{batch}/{n}" for n in range(count)]
    return pa.table({"id": pa.array(ids, pa.string()), "day": pa.array([batch] * count, pa.int64())})


def ids(table):
    return sorted(table.column("id").to_pylist())


class Delta:
    def create(self, bucket, count):
        from deltalake import write_deltalake

        write_deltalake(self.uri(bucket), rows("first", 0, count), storage_options=OBJECT_STORE)

    def append(self, bucket, writer, batches, count):
        from deltalake import write_deltalake

        for batch in range(batches):
            table = rows(writer, batch, count)
            write_deltalake(self.uri(bucket), table, mode="append", storage_options=OBJECT_STORE)

    def read(self, bucket, version=None):
        return ids(self.open(bucket, version).to_pyarrow_table())

    def versions(self, bucket):
        return list(range(self.open(bucket).version() + 1))

    def tidy(self, bucket):
        table = self.open(bucket)
        table.delete("day = 1")
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def open(self, bucket, version=None):
        from deltalake import DeltaTable

        return DeltaTable(self.uri(bucket), version=version, storage_options=OBJECT_STORE)

    def uri(self, bucket):
        return f"s3://{bucket}/table"


class Lance:
    def create(self, bucket, count):
        import lance

        lance.write_dataset(rows("first", 0, count), self.uri(bucket), storage_options=OBJECT_STORE)

    def append(self, bucket, writer, batches, count):
        import lance

        for batch in range(batches):
            table = rows(writer, batch, count)
            lance.write_dataset(table, self.uri(bucket), mode="append", storage_options=OBJECT_STORE)

    def read(self, bucket, version=None):
        return ids(self.open(bucket, version).to_table())

    def versions(self, bucket):
        return [version["version"] for version in self.open(bucket).versions()]

    def tidy(self, bucket):
        dataset = self.open(bucket)
        dataset.delete("day = 1")
        dataset.optimize.compact_files()
        dataset.cleanup_old_versions(older_than=timedelta(0))

    def open(self, bucket, version=None):
        import lance

        return lance.dataset(self.uri(bucket), version=version, storage_options=OBJECT_STORE)

    def uri(self, bucket):
        return f"s3://{bucket}/table.lance"


class Iceberg:
    """Files by pyarrow, as pyiceberg does if nobody says otherwise; the catalogue is a file of SQLite."""

    FILES = {
        "s3.endpoint": ENDPOINT,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }

    def create(self, bucket, count, catalogue):
        catalog = self.catalog(catalogue, bucket)
        catalog.create_namespace("tests")
        table = catalog.create_table("tests.rows", schema=rows("first", 0, 1).schema)
        table.append(rows("first", 0, count))

    def append(self, bucket, writer, batches, count, catalogue):
        from pyiceberg.exceptions import CommitFailedException

        table = self.catalog(catalogue, bucket).load_table("tests.rows")
        for batch in range(batches):
            while True:
                try:
                    table.append(rows(writer, batch, count))
                    break
                except CommitFailedException:
                    table.refresh()

    def read(self, bucket, version=None, catalogue=None):
        from pyiceberg.table import StaticTable

        if catalogue is not None:
            table = self.catalog(catalogue, bucket).load_table("tests.rows")
        else:
            table = StaticTable.from_metadata(self.newest_metadata(bucket), self.FILES)
        return ids(table.scan(snapshot_id=version and int(version)).to_arrow())

    def versions(self, bucket, catalogue):
        table = self.catalog(catalogue, bucket).load_table("tests.rows")
        # As text: a number of JavaScript has too few bits.
        return [str(snapshot.snapshot_id) for snapshot in table.metadata.snapshots]

    def tidy(self, bucket, catalogue):
        table = self.catalog(catalogue, bucket).load_table("tests.rows")
        table.delete("day = 1")
        table.maintenance.expire_snapshots().older_than(datetime.now(timezone.utc)).commit()

    def newest_metadata(self, bucket):
        from pyarrow import fs

        s3 = fs.S3FileSystem(endpoint_override=ENDPOINT, region="us-east-1")
        listed = s3.get_file_info(fs.FileSelector(f"{bucket}/tests/rows/metadata"))
        return "s3://" + max(info.path for info in listed if info.path.endswith(".metadata.json"))

    def catalog(self, catalogue, bucket):
        from pyiceberg.catalog.sql import SqlCatalog

        uri = f"sqlite:///{catalogue}?timeout=60"
        return SqlCatalog("tests", uri=uri, warehouse=f"s3://{bucket}", **self.FILES)


class Dataset:
    """Files of Parquet in a folder a day, which nobody keeps a list of."""

    def append(self, bucket, writer, batches, count):
        from pyarrow import dataset

        for batch in range(batches):
            dataset.write_dataset(
                rows(writer, batch, count),
                f"{bucket}/days",
                filesystem=self.files(),
                format="parquet",
                partitioning=["day"],
                partitioning_flavor="hive",
                basename_template=f"{writer}-{batch}-{{i}}.parquet",
                existing_data_behavior="overwrite_or_ignore",
            )

    def read(self, bucket, day=None):
        from pyarrow import dataset

        days = dataset.dataset(f"{bucket}/days", filesystem=self.files(), format="parquet", partitioning="hive")
        return ids(days.to_table(filter=None if day is None else dataset.field("day") == day))

    def files(self):
        from pyarrow import fs

        return fs.S3FileSystem(endpoint_override=ENDPOINT, region="us-east-1")


FORMATS = {"dataset": Dataset, "deltalake": Delta, "pylance": Lance, "pyiceberg": Iceberg}


def main(name, step):
    print(json.dumps(getattr(FORMATS[name](), step)(**json.load(sys.stdin))), flush=True)
    # Threads of delta-rs that are still there abort a process that ends the usual way.
    os._exit(0)


main(*sys.argv[1:])
