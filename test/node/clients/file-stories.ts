import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Client, Place } from "../../support/clients/client.ts";
import { fileHash, fileRange } from "../../support/clients/samples.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { objectTarget, type S3 } from "../../support/s3.ts";
import { type Story, story } from "./story.ts";

const DESCRIPTION = { contentType: "text/csv", metadata: { origin: "tests", purpose: "a story" } };

/** One file at a time: in, out, in part, on a condition, copied. */
export const FILE_STORIES: readonly Story[] = [
  story("makes a bucket and finds it among all", {
    needs: [],
    async tell({ client, bucket }) {
      await client.makeBucket(`${bucket}-own`);
      expect(await client.buckets()).toContain(`${bucket}-own`);
    },
  }),
  story("puts a small file and an empty one, and gets the same bytes", {
    needs: [],
    async tell({ client, bucket, scratch, s3 }) {
      for (const text of ["to be or not to be\n", ""]) {
        const [sent, received] = [join(scratch, "sent"), join(scratch, "received")];
        writeFileSync(sent, text);
        const place = { bucket, key: `folder/file of ${text.length} bytes` };
        await client.put(sent, place);
        expect(await etagOf(s3, place)).toBe(expectedEtag(Buffer.from(text)));
        await client.get(place, received);
        expect(readFileSync(received, "utf8")).toBe(text);
        rmSync(received);
      }
    },
  }),
  story("puts a file with a type and metadata, and finds both", {
    needs: ["putDescribed", "stat"],
    async tell({ client, bucket, scratch }) {
      const file = join(scratch, "a.csv");
      writeFileSync(file, "name,count\nsluice,1\n");
      const place = { bucket, key: "a.csv" };
      await client.putDescribed(file, { ...place, description: DESCRIPTION });
      const { contentType, size, metadata } = await client.stat(place);
      expect({ contentType, size }).toEqual({ contentType: "text/csv", size: 20 });
      expect(metadata).toMatchObject(DESCRIPTION.metadata);
    },
  }),
  story("puts a large file in parts, gets the same bytes, any range of them, and copies it", {
    needs: ["range"],
    async tell({ client, bucket, scratch, s3, large }) {
      const [place, copy] = [
        { bucket, key: "large/file.bin" },
        { bucket, key: "large/copy.bin" },
      ];
      await client.put(large.file, place);
      expect(await etagOf(s3, place)).toBe(large.etag);
      await expectBytes(client, { place, file: join(scratch, "received"), sha256: large.sha256 });

      // Over the end of the sixth chunk of 4 MiB; and the last bytes.
      const from = 24 * 1024 * 1024 - 10;
      for (const bytes of [
        { first: from, last: from + 19 },
        { first: large.sizeBytes - 5, last: large.sizeBytes - 1 },
      ]) {
        expect(await client.range(place, bytes)).toEqual(fileRange(large.file, bytes));
      }
      await client.copy(place, copy);
      expect(await etagOf(s3, copy)).toBe(large.etag);
    },
  }),
  story("is spared the bytes that it has already", {
    needs: ["getUnlessKnown"],
    async tell({ client, bucket, s3 }) {
      const place = { bucket, key: "known" };
      const { etag } = await s3.put(bucket, place.key, "known\n");
      expect(await client.getUnlessKnown(place, etag)).toBe("not modified");
      await s3.put(bucket, place.key, "news\n");
      expect(await client.getUnlessKnown(place, etag)).toBe("sent");
    },
  }),
  story("writes only where a key is free, or still holds what it should", {
    needs: ["putIf"],
    async tell({ client, bucket, scratch, s3 }) {
      const [file, other] = [join(scratch, "file"), join(scratch, "other")];
      writeFileSync(file, "first\n");
      writeFileSync(other, "second\n");
      const to = { bucket, key: "once" };
      const free = { ifNoneMatch: "*" } as const;
      expect(await client.putIf(file, { ...to, condition: free })).toBe("put");
      expect(await client.putIf(other, { ...to, condition: free })).toBe("refused");
      expect((await s3.get(bucket, to.key))?.toString()).toBe("first\n");

      const holdsFirst = { ifMatch: await etagOf(s3, to) };
      expect(await client.putIf(other, { ...to, condition: holdsFirst })).toBe("put");
      expect(await client.putIf(file, { ...to, condition: holdsFirst })).toBe("refused");
      expect((await s3.get(bucket, to.key))?.toString()).toBe("second\n");
    },
  }),
  story("copies a file with what is kept beside its bytes, also within odd names", {
    needs: ["putDescribed", "stat"],
    async tell({ client, bucket, scratch }) {
      const file = join(scratch, "file");
      writeFileSync(file, "copied\n");
      const [from, to] = [
        { bucket, key: "ein Ordner/ü+%[1].txt" },
        { bucket, key: "anderswo/😀 copy.txt" },
      ];
      await client.putDescribed(file, { ...from, description: DESCRIPTION });
      await client.copy(from, to);
      await client.get(to, join(scratch, "received"));
      expect(readFileSync(join(scratch, "received"), "utf8")).toBe("copied\n");
      const { contentType, metadata } = await client.stat(to);
      expect(contentType).toBe("text/csv");
      expect(metadata).toMatchObject(DESCRIPTION.metadata);
    },
  }),
  story("replaces what is kept beside the bytes of a file, and leaves those", {
    needs: ["putDescribed", "redescribe", "stat"],
    async tell({ client, bucket, scratch, s3 }) {
      const file = join(scratch, "file");
      writeFileSync(file, "stays\n");
      const place = { bucket, key: "redescribed.txt" };
      await client.putDescribed(file, { ...place, description: DESCRIPTION });
      const news = { contentType: "text/markdown", metadata: { origin: "elsewhere" } };
      await client.redescribe(place, news);
      const { contentType, metadata } = await client.stat(place);
      expect(contentType).toBe(news.contentType);
      expect(metadata).toMatchObject(news.metadata);
      expect((await s3.get(bucket, place.key))?.toString()).toBe("stays\n");
    },
  }),
];

async function etagOf(s3: S3, { bucket, key }: Place): Promise<string> {
  const { status, headers } = await s3.ask("HEAD", objectTarget(bucket, key));
  if (status !== 200) throw new Error(`HEAD of ${key}: ${status}`);
  return headers.etag ?? "";
}

interface Expected {
  readonly place: Place;
  /** Where to put them in the meantime. */
  readonly file: string;
  readonly sha256: string;
}

async function expectBytes(client: Client, { place, file, sha256 }: Expected): Promise<void> {
  await client.get(place, file);
  expect(fileHash(file)).toBe(sha256);
  rmSync(file);
}
