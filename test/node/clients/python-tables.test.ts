// @module-tag rest
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasPythonClients, pythonTable } from "../../support/clients/python.ts";
import { type DevServer, sluice, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HERE = hasPythonClients();
const TEST = { timeout: 180_000 };
const FORMATS = ["deltalake", "pylance", "pyiceberg"] as const;
/** Rows of the commit that makes a table. */
const FIRST = 10;
const WRITERS = ["a", "b", "c"] as const;
const BATCHES = 6;
const ROWS = 5;

let server: DevServer;
const scratch = scratchFolder();
beforeAll(async () => {
  if (HERE) server = await startDevServer();
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

interface Table {
  readonly bucket: string;
  step<Output>(step: string, given?: object): Promise<Output>;
  /** Of a tag, by what is in its bucket alone. */
  readTag(tag: string): Promise<string[]>;
}

describe.each(FORMATS)("%s", (format) => {
  let tables = 0;
  /** A table of some rows, with the tag `v1`. */
  async function tagged(): Promise<Table> {
    tables += 1;
    const bucket = `master.${format}-${tables}`;
    await new S3(server).createBucket(bucket);
    // Iceberg alone has a catalogue of its own; those of Delta and Lance are files of the table.
    const more = format === "pyiceberg" ? { catalogue: join(scratch, `${tables}.sqlite`) } : {};
    const table: Table = {
      bucket,
      step: (step, given) => pythonTable(server, format, step, { bucket, ...more, ...given }),
      readTag: (tag) => pythonTable(server, format, "read", { bucket: `${tag}.${bucket}` }),
    };
    await table.step("create", { count: FIRST });
    await sluiceOk(server, "tag", "create", "v1", bucket);
    return table;
  }

  test.skipIf(!HERE)(
    "loses no row of processes that append at the same time, while readers of a tag see what it names",
    TEST,
    async () => {
      const table = await tagged();
      let writing = true;
      const writers = WRITERS.map((writer) =>
        table.step("append", { writer, batches: BATCHES, count: ROWS }),
      );
      const written = Promise.all(writers).finally(() => {
        writing = false;
      });
      // The first read begins with the writers.
      while (writing) expect(await table.readTag("v1")).toEqual(FIRST_ROWS);
      await written;
      expect(await table.step("read")).toEqual(sorted([...FIRST_ROWS, ...WRITERS.flatMap(rowsOf)]));

      // Each commit of a table is a version of it, and adds the rows of one batch.
      const versions = await table.step<(number | string)[]>("versions");
      expect(versions).toHaveLength(1 + WRITERS.length * BATCHES);
      for (const [n, version] of versions.entries()) {
        if (n % 6 !== 0) continue;
        const rows = await table.step<string[]>("read", { version });
        expect(rows).toHaveLength(FIRST + n * ROWS);
        expect(rows).toEqual(expect.arrayContaining(FIRST_ROWS));
      }
    },
  );

  test.skipIf(!HERE)(
    "reads a tag in full after its branch deleted rows and threw old versions away",
    TEST,
    async () => {
      const table = await tagged();
      await table.step("append", { writer: "a", batches: 3, count: ROWS });
      await sluiceOk(server, "tag", "create", "v2", table.bucket);
      const all = sorted([...FIRST_ROWS, ...rowsOf("a").slice(0, 3 * ROWS)]);
      expect(await table.step("read")).toEqual(all);
      await table.step("tidy");
      expect(await table.step("read")).toEqual(all.filter((id) => !id.startsWith("a/1/")));
      expect(await table.readTag("v1")).toEqual(FIRST_ROWS);
      expect(await table.readTag("v2")).toEqual(all);
    },
  );

  // The metadata of Iceberg names its bucket, and an open commit's goes.
  if (format === "pyiceberg") return;
  test.skipIf(!HERE)(
    "is one commit if it is written in an open commit, whose finish is refused if somebody else came first, and goes back by a revert",
    TEST,
    async () => {
      const table = await tagged();
      const commits = async (): Promise<number> =>
        JSON.parse(await sluiceOk(server, "commit", "list", table.bucket, "--json")).commits.length;
      const opened = async (writer: string): Promise<string> => {
        const started = await sluice(server, "commit", "start", `s3://${table.bucket}`);
        const open = started.stdout.toString().trim();
        await table.step("append", {
          bucket: open.replace("s3://", ""),
          writer,
          batches: BATCHES,
          count: ROWS,
        });
        return open;
      };
      const before = await commits();
      const [one, two] = [await opened("a"), await opened("b")];
      expect(await table.step("read")).toEqual(FIRST_ROWS);
      expect((await sluice(server, "commit", "finish", one)).code).toBe(0);
      const late = await sluice(server, "commit", "finish", two, "--json");
      expect([late.code, late.stderr]).toEqual([1, expect.stringContaining("ConditionalRequestConflict")]);
      expect((await sluice(server, "commit", "abort", two)).code).toBe(0);
      expect([await commits(), await table.step("read")]).toEqual([
        before + 1,
        sorted([...FIRST_ROWS, ...rowsOf("a")]),
      ]);
      await sluiceOk(server, "commit", "revert", `${table.bucket}@v1`);
      await table.step("append", { writer: "c", batches: 1, count: ROWS });
      expect(await table.step("read")).toEqual(sorted([...FIRST_ROWS, ...rowsOf("c").slice(0, ROWS)]));
    },
  );
});

test.skipIf(!HERE)(
  "pyarrow writes a partitioned dataset from several processes, and reads some partitions of it, at a tag as it was",
  TEST,
  async () => {
    const bucket = "master.dataset";
    await new S3(server).createBucket(bucket);
    const step = <Output>(name: string, given: object) =>
      pythonTable<Output>(server, "dataset", name, { bucket, ...given });
    await step("append", { writer: "first", batches: 1, count: FIRST });
    await sluiceOk(server, "tag", "create", "v1", bucket);
    await Promise.all(WRITERS.map((writer) => step("append", { writer, batches: BATCHES, count: ROWS })));
    expect(await step("read", {})).toEqual(sorted([...FIRST_ROWS, ...WRITERS.flatMap(rowsOf)]));
    const ofDay = sorted(WRITERS.flatMap(rowsOf).filter((id) => id.split("/")[1] === "3"));
    expect(await step("read", { day: 3 })).toEqual(ofDay);
    expect(await step("read", { bucket: `v1.${bucket}` })).toEqual(FIRST_ROWS);
  },
);

const FIRST_ROWS = sorted(Array.from({ length: FIRST }, (_, n) => `first/0/${n}`));

/** All that a writer appends, batch by batch. */
function rowsOf(writer: string): string[] {
  return Array.from({ length: BATCHES * ROWS }, (_, n) => `${writer}/${Math.floor(n / ROWS)}/${n % ROWS}`);
}

/** As Python sorts them. */
function sorted(ids: readonly string[]): string[] {
  return [...ids].sort();
}
