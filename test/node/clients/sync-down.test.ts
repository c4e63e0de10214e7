// @module-tag rest
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLIENTS } from "../../support/clients/roster.ts";
import { readFolder, writeFolder } from "../../support/clients/samples.ts";
import { type DevServer, startDevServer } from "../../support/dev-server.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const SYNCING = CLIENTS.filter(({ lacks }) => !lacks.includes("syncDown"));

let server: DevServer;
const scratch = scratchFolder();
beforeAll(async () => {
  server = await startDevServer({ variables: { SLUICE_LAST_MODIFIED: "object" } });
});
afterAll(async () => {
  await server?.stop();
  removeScratch(scratch);
});

for (const { name, here, open } of SYNCING) {
  test.skipIf(!here)(
    `${name} syncs down, where Last-Modified is the object's, nothing that it has, after an unrelated commit`,
    async () => {
      const [s3, client] = [new S3(server), open(server)];
      const bucket = `master.${name.replaceAll(" ", "-")}`;
      await s3.createBucket(bucket);
      const [sent, received] = [join(scratch, name, "sent"), join(scratch, name, "received")];
      writeFolder(
        sent,
        Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`${n % 3}/${n}`, `${n}\n`])),
      );
      mkdirSync(received);
      const folder = { bucket, prefix: "synced/" };
      await client.putFolder?.(sent, folder);
      await client.syncDown?.(folder, received);
      expect(readFolder(received)).toEqual(readFolder(sent));

      const before = stamps(received);
      await s3.put(bucket, "unrelated", "newer than all that was fetched\n");
      await client.syncDown?.(folder, received);
      expect(stamps(received)).toEqual(before);
    },
  );
}

/** What of each file changes when it is written anew. */
function stamps(folder: string): readonly (readonly [string, number, number])[] {
  return Object.keys(readFolder(folder)).map((path) => {
    const { ino, ctimeMs } = statSync(join(folder, path));
    return [path, ino, ctimeMs] as const;
  });
}
