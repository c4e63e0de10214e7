import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { signingCurl } from "../../support/clients/curl.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import type { Door } from "../../support/keys.ts";
import { seededBytes } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

/** Plain curl with the gateway's key, as docs/s3-clients.md shows it. */
export async function tellCurlStory(door: Door): Promise<void> {
  const [curl, s3] = [signingCurl(door), new S3(door)];
  await s3.createBucket("master.curl");
  const object = `${door.endpoint}/master.curl/as-you-like-it.txt`;
  const text = "all the world is a stage";
  await curl("--data-binary", text, "-X", "PUT", object);
  expect(await curl(object)).toBe(text);
  expect(await curl("--range", "4-8", object)).toBe("the w");
  const etag = expectedEtag(Buffer.from(text));
  expect(await curl("--dump-header", "-", "--output", "/dev/null", object)).toContain(etag);
  const known = ["--header", `If-None-Match: ${etag}`, "--write-out", "%{http_code}", object];
  expect(await curl(...known)).toBe("304");
  expect(await curl(`${door.endpoint}/master.curl?list-type=2`)).toContain("<Key>as-you-like-it.txt</Key>");
  expect(JSON.parse(await curl(`${door.endpoint}/api/v1/pipelines`))).toEqual({ pipelines: [] });

  // So long that curl asks with `Expect: 100-continue` before it sends.
  const folder = scratchFolder();
  const file = join(folder, "streamed");
  const bytes = seededBytes(6 * 1024 * 1024, 21);
  writeFileSync(file, bytes);
  await curl("--upload-file", file, `${door.endpoint}/master.curl/streamed`);
  expect((await s3.get("master.curl", "streamed"))?.equals(bytes)).toBe(true);
  removeScratch(folder);
}
