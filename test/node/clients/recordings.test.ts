import { afterAll, beforeAll } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { testRecordings } from "./recorded.ts";

let server: DevServer;
beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

testRecordings(() => server);
