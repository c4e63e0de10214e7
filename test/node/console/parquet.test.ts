// @module-tag rest
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { Page, Request } from "playwright-core";
import { describe, expect, test } from "vitest";
import { faultsOf, HAS_CHROMIUM, logInAt } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { seededRandom } from "../../support/random.ts";
import type { S3 } from "../../support/s3.ts";

/** What pyarrow wrote: its make.py says what is in each. */
const FIXTURES = new URL("../../fixtures/parquet/", import.meta.url);
const fixture = (name: string): Buffer => readFileSync(new URL(name, FIXTURES));

let server: DevServer;
let s3: S3;
let page: Page;
let asked: Request[];

setStage({
  async begin(stage) {
    ({ server, s3 } = stage);
    await s3.createBucket("master.tables");
  },
  opened(opened) {
    page = opened;
    asked = [];
    page.on("request", (request) => asked.push(request));
  },
});

async function show(name: string, body: Buffer): Promise<void> {
  await s3.put("master.tables", name, body);
  await logInAt(page, server, `/repos/tables/master/file?path=${name}`);
}

const preview = () => page.getByRole("region", { name: "Preview" });
const rows = () => preview().getByRole("region", { name: "Table" }).getByRole("row");
const refusal = () => preview().getByText("can't be read as such", { exact: false });

describe.skipIf(!HAS_CHROMIUM)("a Parquet file", () => {
  test.each([
    ["none", "uncompressed"],
    ["snappy", "snappy"],
    ["gzip", "gzip"],
    ["zstd", "zstd"],
    ["v2", "zstd"],
  ])("is shown by its columns, its number of rows, and the first of them: %s", async (name, codec) => {
    await show(`${name}.parquet`, fixture(`${name}.parquet`));
    await preview().getByText("300 rows").waitFor();
    await preview().getByText(codec, { exact: true }).waitFor();
    expect(await rows().count()).toBe(101);
    const cells = (row: number) => rows().nth(row).locator("th,td").allInnerTexts();
    expect(await cells(0)).toEqual([
      ...["id", "big", "name", "share", "good", "at", "day", "price", "raw", "list", "place"],
    ]);
    expect((await cells(3)).slice(0, 8)).toEqual([
      ...["2", "1152921504606846978", "name 2 <b>bold</b>", "0.25", "true"],
      ...["2026-01-01T02:00:00.000Z", "2026-01-03", "0.02"],
    ]);
    expect((await cells(3)).slice(8)).toEqual(["02 ff", "[0,1]", '{"lat":1,"name":"p2"}']);
    // Those that have none.
    expect((await cells(4)).filter((cell) => cell === "")).toHaveLength(3);
    expect(await preview().locator("b", { hasText: "bold" }).count()).toBe(0);
    await preview().getByText("Columns", { exact: true }).click();
    await preview().getByRole("region", { name: "Columns" }).getByText("decimal or none").waitFor();
    expect(await faultsOf(page)).toEqual([]);
  });

  test("that is packed in another way is shown by its columns", async () => {
    await show("brotli.parquet", fixture("brotli.parquet"));
    await preview().getByText("300 rows").waitFor();
    await preview().getByText("id, since it is packed with BROTLI", { exact: false }).waitFor();
    await preview().getByText("Columns", { exact: true }).click();
    await preview().getByRole("region", { name: "Columns" }).getByText("share").waitFor();
  });

  test("that is large is read in four ranges and 8 MiB at most", async () => {
    await show("large.parquet", gunzipSync(fixture("large.parquet.gz")));
    await preview().getByText("300,000 rows").waitFor();
    expect(await rows().count()).toBe(101);
    await preview().getByText("second, since it is too large; third", { exact: false }).waitFor();
    const reads = asked.filter(
      (request) => new URL(request.url()).pathname === "/master.tables/large.parquet",
    );
    expect(reads.length).toBeLessThanOrEqual(4);
    const sizes = await Promise.all(
      reads.map(async (one) => (await (await one.response())?.body())?.length ?? 0),
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(8 * 1024 * 1024);
  });
});

/** Bytes with others at a place. */
function patched(bytes: Buffer, at: number, ...others: readonly number[]): Buffer {
  const copy = Buffer.from(bytes);
  copy.set(others, at);
  return copy;
}

describe.skipIf(!HAS_CHROMIUM)("a Parquet file that lies", () => {
  const sound = HAS_CHROMIUM ? fixture("none.parquet") : Buffer.alloc(0);
  /** How its first column says for all of its values that they are there: 300 times the level 1. */
  const levels = sound.indexOf(Buffer.from([3, 0, 0, 0, 0xd8, 4, 1]));

  test.each([
    ["of its footer", patched(sound, sound.length - 8, 0xff, 0xff, 0xff, 0x7f)],
    [
      "that it begins and ends so",
      Buffer.concat([Buffer.from("PAR1"), Buffer.alloc(40), Buffer.from("PAR1")]),
    ],
    ["that it is whole", Buffer.concat([sound.subarray(0, 9000), sound.subarray(-4)])],
    ["of what comes out of a page", fixture("bomb.parquet")],
    ["of how often a value repeats", patched(sound, levels + 4, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1)],
  ])("%s is said to be unreadable", async (_, body) => {
    await show("liar.parquet", body);
    await refusal().waitFor();
    // The page still does what it is told to.
    await page.getByRole("link", { name: "master", exact: true }).click();
    await page.getByRole("link", { name: "liar.parquet" }).waitFor();
  });

  test("somewhere is shown or said to be unreadable, whatever lies", async () => {
    const random = seededRandom(7);
    const upTo = (most: number) => Math.floor(random() * most);
    await logInAt(page, server, "/repos/tables/master");
    for (let round = 0; round < 15; round++) {
      const body = Buffer.from(fixture(["none", "snappy", "gzip", "zstd", "v2"][round % 5] + ".parquet"));
      // The footer says most; the rest is pages.
      const from = round % 2 === 0 ? body.length - 3000 : 4;
      for (let n = 0; n < 8; n++) body[from + upTo(body.length - 8 - from)] = upTo(256);
      await s3.put("master.tables", `round-${round}.parquet`, body);
      const address = `/console/repos/tables/master/file?path=round-${round}.parquet`;
      await page.evaluate((to) => history.pushState(null, "", to), address);
      await page.getByRole("heading", { level: 1, name: `round-${round}.parquet` }).waitFor();
      await refusal()
        .or(preview().getByText(/ rows?$/))
        .first()
        .waitFor();
    }
  });
});
