import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ApiTool } from "../../support/clients/api-tool.ts";
import type { Client, Extra, Extras } from "../../support/clients/client.ts";
import type { RosterClient, RosterTool } from "../../support/clients/roster.ts";
import { Control } from "../../support/control.ts";
import type { Server } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { BUCKET_SCENARIOS } from "./bucket-scenarios.ts";
import { FILE_STORIES } from "./file-stories.ts";
import { FOLDER_STORIES } from "./folder-stories.ts";
import { type LargeSample, largeSample } from "./large-sample.ts";
import { MULTIPART_SCENARIOS } from "./multipart-scenarios.ts";
import { OBJECT_SCENARIOS } from "./object-scenarios.ts";

const SCENARIOS = [...BUCKET_SCENARIOS, ...OBJECT_SCENARIOS, ...MULTIPART_SCENARIOS];
const STORIES = [...FILE_STORIES, ...FOLDER_STORIES];
const TEST = { timeout: 180_000 };

/** Tests of every scenario with every tool. */
export function describeScenarios(server: () => Server, tools: readonly RosterTool[]): void {
  describe.each(tools)("$name", ({ name, here, open }) => {
    let tool: ApiTool;
    beforeAll(() => {
      if (here) tool = open(server());
    });
    afterAll(() => tool?.close());

    for (const { sentence, run } of SCENARIOS) {
      test.skipIf(!here)(sentence, TEST, async () => {
        const s3 = new S3(server());
        const bucket = await newBucket(s3, `api ${name}`);
        const fill = async (keys: readonly string[]): Promise<void> => {
          for (const key of keys) await s3.put(bucket, key, key);
        };
        await run({ tool, bucket, fill });
      });
    }
  });
}

export interface Cast {
  readonly clients: readonly RosterClient[];
  /** Of the file that goes in parts. */
  readonly largeBytes: number;
}

/** Tests of every story with every client that has the words for it. */
export function describeStories(server: () => Server, { clients, largeBytes }: Cast): void {
  const folder = scratchFolder();
  let large: LargeSample;
  beforeAll(() => {
    large = largeSample(folder, { sizeBytes: largeBytes });
  });
  afterAll(() => removeScratch(folder));

  describe.each(clients)("$name", ({ name, here, lacks, open }) => {
    let client: Client & Extras;
    beforeAll(() => {
      if (here) client = withAllBut(open(server()), lacks);
    });
    afterAll(() => client?.close?.());

    for (const { sentence, needs, tell } of STORIES) {
      if (needs.some((verb) => lacks.includes(verb))) continue;
      test.skipIf(!here)(sentence, TEST, async () => {
        const [s3, control] = [new S3(server()), new Control(server())];
        const bucket = await newBucket(s3, name);
        const scratch = join(folder, bucket);
        mkdirSync(scratch);
        await tell({ client, bucket, scratch, s3, control, large });
        removeScratch(scratch);
      });
    }
  });
}

const EXTRAS: Readonly<Record<Extra, true>> = {
  putDescribed: true,
  stat: true,
  redescribe: true,
  range: true,
  getUnlessKnown: true,
  putIf: true,
  linkToGet: true,
  linkToPut: true,
  putFolder: true,
  getFolder: true,
  syncUp: true,
  syncDown: true,
};

// The roster says what a client lacks, because tests are collected before there is a server to open one for.
function withAllBut(client: Client, lacks: readonly Extra[]): Client & Extras {
  const missing = Object.keys(EXTRAS).filter((verb) => !(verb in client));
  expect(missing.sort()).toEqual([...lacks].sort());
  return client as Client & Extras;
}

let buckets = 0;

async function newBucket(s3: S3, name: string): Promise<string> {
  buckets += 1;
  const bucket = `master.${name.toLowerCase().replaceAll(" ", "-")}-${buckets}`;
  await s3.createBucket(bucket);
  return bucket;
}
