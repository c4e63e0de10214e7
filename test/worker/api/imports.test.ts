import { describe, expect, test } from "vitest";
import { contentOf, failed, good, paths } from "./support.ts";

const CORS = { origins: ["*"], methods: ["GET"], headers: ["*"], exposed: ["ETag"] };

/** The beginning of an import of a branch with one commit. */
function beginning(cors: object = CORS): object {
  const settings = { public: false, cors: [cors], writer: null };
  return { archive: "0".repeat(64), branch: { createdAt: 1, head: 1, settings } };
}

describe("an import", () => {
  test.each([
    ["the name of a header", { exposed: ["ETag", "a\nb"] }, "branch.settings.cors[0].exposed[1]"],
    ["a method", { methods: ["GET\r\n"] }, "branch.settings.cors[0].methods[0]"],
  ])("refuses CORS rules with %s that no answer can carry", async (_, wrong, path) => {
    const target = "POST /repos/import-cors/branches/master/imports";
    const error = await failed(target, { body: beginning({ ...CORS, ...wrong }) });
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(paths(error)).toEqual([path]);
  });

  test("refuses files with checksums that no answer can carry, and takes those that one can", async () => {
    const target = "POST /repos/import-sums/branches/master/imports";
    const begun = await good(target, { body: beginning() });
    const pages = `${target}/${begun.import}`;
    const commit = [1, "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 1, 0, null, null, null, null, 0];
    await good(`${pages}/commits`, { body: { after: 0, commits: [commit] } });
    const { id, bytes } = await contentOf("x");
    const page = (attributes: object) => {
      const file = ["a", 1, null, id.digest, id.size, JSON.stringify(attributes), null];
      return { after: { path: "", born: 0 }, files: [file], contents: [{ ...id, bytes }] };
    };
    const checksum = { algorithm: "CRC32", type: "COMPOSITE", value: "AAAAAA==-2" };
    const parts = { sizes: [[1, 1]], checksums: ["AAAAAA=="] };
    for (const [wrong, path] of [
      [{ checksum: { ...checksum, value: "AAAAAA==\n" }, parts }, "checksum.value"],
      [{ checksum, parts: { ...parts, checksums: ["\u2603"] } }, "parts.checksums[0]"],
    ] as const) {
      const error = await failed(`${pages}/files`, { body: page(wrong) });
      expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
      expect(paths(error)).toEqual([`files[0][5].${path}`]);
    }
    await good(`${pages}/files`, { body: page({ checksum, parts }) });
  });

  test("refuses a file whose parts are not as long as it is, and says which, by how much, and what to do", async () => {
    const target = "POST /repos/import-parts/branches/master/imports";
    const begun = await good(target, { body: beginning() });
    const pages = `${target}/${begun.import}`;
    const commit = [1, "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1, 3, 0, null, null, null, null, 0];
    await good(`${pages}/commits`, { body: { after: 0, commits: [commit] } });
    const { id, bytes } = await contentOf("seven b");
    const page = (...sizes: [size: number, count: number][][]) => ({
      after: { path: "", born: 0 },
      files: sizes.map((runs, n) => [
        `f${n}`,
        1,
        null,
        id.digest,
        7,
        JSON.stringify({ parts: { sizes: runs } }),
        null,
      ]),
      contents: [{ ...id, bytes }],
    });
    const sound = [
      [3, 2],
      [1, 1],
    ] as [number, number][];
    for (const [runs, sum] of [
      [[[3, 2]], "6 bytes"],
      [[[3, 3]], "9 bytes"],
      [[], "0 bytes"],
      [
        [
          [7, 1],
          [Number.MAX_SAFE_INTEGER, 2],
        ],
        "18014398509481989 bytes",
      ],
    ] as [[number, number][], string][]) {
      const error = await failed(`${pages}/files`, { body: page(sound, runs) });
      expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
      expect(paths(error)).toEqual(["files[1][5].parts.sizes"]);
      expect(error.message).toContain(`the parts of 'f1' have ${sum} together, and the file has 7`);
      expect(error.message).toContain("export the repo again");
    }
    // Nothing of a page that was refused is there.
    await good(`${pages}/files`, { body: page(sound) });
  });
});
