import { expect, test } from "vitest";
import type { Server } from "../../support/dev-server.ts";
import { type RecordedAnswer, recordings, replay } from "../../support/recordings.ts";

/**
 * Tests of what clients sent that are not installed here: it is sent again. The recordings are of a gateway on a disk of which
 * nothing says that it encrypts; `encrypts`: this one's store does, as R2 does, and its answers say so.
 */
export function testRecordings(server: () => Server, { encrypts = false } = {}): void {
  test.for(recordings())("what $name sent when it was recorded is answered as it was then", async ({
    recording,
  }) => {
    const expected: object[] = [];
    const answered: object[] = [];
    for await (const { asked, recorded, answered: answer } of replay(server(), recording)) {
      expected.push({ asked, ...(encrypts ? ofEncrypted(recorded) : recorded) });
      answered.push({ asked, ...(encrypts ? withoutEncryption(answer) : answer) });
    }
    expect(expected.length).toBeGreaterThan(20);
    expect(answered).toEqual(expected);
  });
}

/** How a bucket is encrypted is told, where it was not. */
function ofEncrypted({ code, ...recorded }: RecordedAnswer): RecordedAnswer {
  if (code === "ServerSideEncryptionConfigurationNotFoundError") return { ...recorded, status: 200 };
  return { ...recorded, ...(code !== undefined && { code }) };
}

function withoutEncryption({ headers, ...answer }: RecordedAnswer): RecordedAnswer {
  const { "x-amz-server-side-encryption": encryption, ...others } = headers;
  expect(encryption ?? "AES256").toBe("AES256");
  return { ...answer, headers: others };
}
