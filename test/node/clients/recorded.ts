import { expect, test } from "vitest";
import type { Server } from "../../support/dev-server.ts";
import { recordings, replay } from "../../support/recordings.ts";

/** Tests of what clients sent that are not installed here: it is sent again. */
export function testRecordings(server: () => Server): void {
  test.for(recordings())("what $name sent when it was recorded is answered as it was then", async ({
    recording,
  }) => {
    const expected: object[] = [];
    const answered: object[] = [];
    for await (const { asked, ...exchange } of replay(server(), recording)) {
      expected.push({ asked, ...exchange.recorded });
      answered.push({ asked, ...exchange.answered });
    }
    expect(expected.length).toBeGreaterThan(20);
    expect(answered).toEqual(expected);
  });
}
