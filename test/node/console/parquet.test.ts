// @module-tag rest
import { gunzipSync } from "node:zlib";
import type { Page, Request } from "playwright-core";
import { describe, expect, test } from "vitest";
import { faultsOf, HAS_CHROMIUM, logInAt } from "../../support/browser.ts";
import { setStage } from "../../support/console.ts";
import type { DevServer } from "../../support/dev-server.ts";
import { lyingParquetFiles, parquetBombs, parquetFile } from "../../support/parquet.ts";
import { seededRandom } from "../../support/random.ts";
import type { S3 } from "../../support/s3.ts";

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
    await show(`${name}.parquet`, parquetFile(`${name}.parquet`));
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
    await show("brotli.parquet", parquetFile("brotli.parquet"));
    await preview().getByText("300 rows").waitFor();
    await preview().getByText("id, since it is packed with BROTLI", { exact: false }).waitFor();
    await preview().getByText("Columns", { exact: true }).click();
    await preview().getByRole("region", { name: "Columns" }).getByText("share").waitFor();
  });

  test("that is large is read in four ranges and 8 MiB at most", async () => {
    await show("large.parquet", gunzipSync(parquetFile("large.parquet.gz")));
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

describe.skipIf(!HAS_CHROMIUM)("a Parquet file out of which too much would come", () => {
  test.each(
    parquetBombs(),
  )("is shown by its columns and its number of rows, and not unpacked: %s", async (_, body) => {
    await show("bomb.parquet", body);
    await preview().getByText("10,000,000 rows").waitFor();
    await preview().getByText("Not shown: zeros, since too much would come out of it.").waitFor();
    await preview().getByText("Columns", { exact: true }).click();
    await preview().getByRole("region", { name: "Columns" }).getByText("int64").waitFor();
    expect(await rows().count()).toBe(0);
  });
});

describe.skipIf(!HAS_CHROMIUM)("a Parquet file that lies", () => {
  test.each(lyingParquetFiles())("%s is said to be unreadable", async (_, body) => {
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
      const body = Buffer.from(parquetFile(["none", "snappy", "gzip", "zstd", "v2"][round % 5] + ".parquet"));
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
