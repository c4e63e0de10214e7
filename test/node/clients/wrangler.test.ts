// @module-tag rest
import { afterAll, beforeAll, describe, test } from "vitest";
import { hasCurl } from "../../support/clients/curl.ts";
import { AWS_CLIENTS, SDKS } from "../../support/clients/roster.ts";
import type { Server } from "../../support/dev-server.ts";
import { startWrangler } from "../../support/wrangler.ts";
import { tellCurlStory } from "./curl-story.ts";
import { tellPipelineStory } from "./pipeline-story.ts";
import { testRecordings } from "./recorded.ts";
import { describeScenarios, describeStories } from "./suite.ts";

const CURL = await hasCurl();
/** Less than the embedded gateway gets: the R2 simulator is slow. */
const LARGE_BYTES = 40_000_000;

describe("on wrangler dev, over R2", () => {
  let server: Server;
  beforeAll(async () => {
    server = await startWrangler();
  });
  afterAll(() => server?.stop());

  describeStories(() => server, { clients: AWS_CLIENTS, largeBytes: LARGE_BYTES });
  describeScenarios(() => server, SDKS);
  testRecordings(() => server, { encrypts: true });
  test.skipIf(!CURL)("plain curl writes, reads and reaches the control API", () => tellCurlStory(server));
  test("a pipeline runs over what was put through S3", () => tellPipelineStory(server));
});
