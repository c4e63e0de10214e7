import { afterAll, beforeAll, expect, test } from "vitest";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { recordings, replay } from "../../support/recordings.ts";

let server: DevServer;
beforeAll(async () => {
  server = await startDevServer();
});
afterAll(() => server?.stop());

test.for(recordings())("what $name sent when it was recorded is answered as it was then", async ({
  recording,
}) => {
  const asked: string[] = [];
  const answered: object[] = [];
  const expected: object[] = [];
  for await (const exchange of replay(server, recording)) {
    asked.push(exchange.asked);
    expected.push({ asked: exchange.asked, ...exchange.recorded });
    answered.push({ asked: exchange.asked, ...exchange.answered });
  }
  expect(asked.length).toBeGreaterThan(20);
  expect(answered).toEqual(expected);
});
