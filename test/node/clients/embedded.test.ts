// @module-tag rest
import { afterAll, beforeAll, describe, test } from "vitest";
import { hasCurl } from "../../support/clients/curl.ts";
import { API_TOOLS, CLIENTS } from "../../support/clients/roster.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { tellCurlStory } from "./curl-story.ts";
import { tellPipelineStory } from "./pipeline-story.ts";
import { describeScenarios, describeStories } from "./suite.ts";

const CURL = await hasCurl();
const LARGE_BYTES = 200_000_000;

describe("on the embedded gateway", () => {
  let server: DevServer;
  beforeAll(async () => {
    server = await startDevServer();
  });
  afterAll(() => server?.stop());

  describeStories(() => server, { clients: CLIENTS, largeBytes: LARGE_BYTES });
  describeScenarios(() => server, API_TOOLS);
  test.skipIf(!CURL)("plain curl writes, reads and reaches the control API", () => tellCurlStory(server));
  test("a pipeline runs over what was put through S3", () => tellPipelineStory(server));
});
