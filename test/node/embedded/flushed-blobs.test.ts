import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { FlushedBlobs } from "../../../embedded/data/flushed-blobs.ts";
import type { HostFlush } from "../../../protocol/admin.ts";
import { scratchFolder } from "../../support/scratch.ts";

let blobs: FlushedBlobs;
beforeEach(() => {
  const root = scratchFolder();
  mkdirSync(join(root, "b/00/uid"), { recursive: true });
  for (const name of ["one", "other"]) writeFileSync(join(root, "b/00/uid", name), name);
  blobs = new FlushedBlobs(root);
});

/** What the host answers to the Worker. */
function ask(asked: HostFlush) {
  const request = { method: "POST", url: "http://host/flush", headers: new Map(), json: async () => asked };
  return blobs.answer({ ...request, headers: { get: () => null } });
}

describe("blobs that are to outlast a power cut", () => {
  test("are flushed together; one that is not there is told to those who asked for it, and to no others", async () => {
    const names = ["b/00/uid/one", "b/00/uid/missing", "b/00/uid/other"];
    const answers = await Promise.all(names.map((name) => ask({ written: [name], removed: [] })));
    expect(answers).toEqual([
      { failure: null },
      { failure: { message: expect.stringContaining("ENOENT"), isFull: false } },
      { failure: null },
    ]);
  });

  test("are asked for any number of times, and their folders as well when they are gone", async () => {
    for (let time = 0; time < 3; time++) {
      await blobs.flush({ written: ["b/00/uid/one"], removed: ["b/00/uid/gone", "b/ff/never/there"] });
    }
  });

  test.each([
    "../state",
    "b/../../state",
    "/etc/passwd",
    "b//x",
    "b/00/",
    "",
    "b/.hidden",
    ".",
  ])("have no name that leads elsewhere: '%s'", async (name) => {
    for (const asked of [
      { written: [name], removed: [] },
      { written: [], removed: [name] },
    ]) {
      expect(await ask(asked)).toEqual({
        failure: { message: `${name} is no name of a blob`, isFull: false },
      });
    }
  });
});
