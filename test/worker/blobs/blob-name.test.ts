import { describe, expect, test } from "vitest";
import { chunkBlobName, manifestBlobName } from "../../../worker/blobs/blob-name.ts";

const owner = { uid: "uid-1", upload: "master.photos.01ARZ3NDEKTSV4RRFFQ69G5FAV", write: "0badcafe" };
const content = { digest: `ab${"0".repeat(62)}`, size: 42 };

describe("the name of a blob", () => {
  test("tells what is in it, whose it is and which upload wrote it", () => {
    const name = `${content.digest}-42`;
    expect(chunkBlobName(content, owner)).toBe(`b/ab/uid-1/${name}.0badcafe.01ARZ3NDEKTSV4RRFFQ69G5FAV`);
    expect(manifestBlobName(content, owner)).toBe(
      `b/ab/uid-1/${name}.manifest.0badcafe.01ARZ3NDEKTSV4RRFFQ69G5FAV`,
    );
  });

  test("differs between uploads, writes, branches, contents and kinds", () => {
    const owners = [
      owner,
      { ...owner, uid: "uid-2" },
      { ...owner, write: "0badcaff" },
      { ...owner, upload: "master.photos.01ARZ3NDEKTSV4RRFFQ69G5FAW" },
    ];
    const names = owners.flatMap((each) =>
      [content, { ...content, size: 43 }].flatMap((of) => [
        chunkBlobName(of, each),
        manifestBlobName(of, each),
      ]),
    );
    expect(new Set(names).size).toBe(names.length);
  });

  test("has no part that starts with a dot, which the disk service would refuse", () => {
    for (const name of [chunkBlobName(content, owner), manifestBlobName(content, owner)])
      expect(name.split("/").some((part) => part.startsWith("."))).toBe(false);
  });
});
