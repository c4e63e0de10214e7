// @module-tag rest
import { mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLIENTS } from "../../support/clients/roster.ts";
import { readFolder, writeFolder } from "../../support/clients/samples.ts";
import { type DevServer, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
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

for (const { name, here, open } of SYNCING.filter(({ name }) => name === "aws s3")) {
  test.skipIf(!here)(
    `${name} syncs up a file of equal size that was edited before another commit, once the branch is set to the object's time`,
    async () => {
      const [s3, client] = [new S3(server), open(server)];
      const bucket = "master.edited";
      await s3.createBucket(bucket);
      const set = (whose: string) => sluiceOk(server, "branch", "last-modified", bucket, whose);
      const sent = join(scratch, name, "edited");
      writeFolder(sent, { file: "before\n" });
      const folder = { bucket, prefix: "" };
      await client.syncUp?.(sent, folder);
      const wrote = Date.now();
      const edited = new Date(wrote + 1000);
      writeFileSync(join(sent, "file"), "after!\n");
      utimesSync(join(sent, "file"), edited, edited);
      await eventually("the edit is in the past", () => Date.now() > wrote + 2000);
      await s3.put(bucket, "unrelated", "later than the edit\n");
      const held = async () => (await s3.get(bucket, "file"))?.toString();
      await set("branch");
      await client.syncUp?.(sent, folder);
      expect(await held()).toBe("before\n");
      await set("object");
      await client.syncUp?.(sent, folder);
      expect(await held()).toBe("after!\n");
    },
  );
}

for (const { name, here, open } of SYNCING.filter(({ name }) => name === "aws s3")) {
  test.skipIf(!here)(
    `${name} syncs up a file that was touched once and not again, and no commit is made of it`,
    async () => {
      const [s3, client] = [new S3(server), open(server)];
      const bucket = "master.touched";
      await s3.createBucket(bucket);
      const sent = join(scratch, name, "touched");
      writeFolder(sent, { file: "the same\n" });
      const folder = { bucket, prefix: "" };
      await client.syncUp?.(sent, folder);
      const commits = async () => {
        const listed = await sluiceOk(server, "commit", "list", bucket, "--json");
        return JSON.parse(listed).commits.map(({ id }: { id: string }) => id);
      };
      const times = async () => {
        const head = await s3.ask("HEAD", `/${bucket}/file`);
        const list = await s3.ask("GET", `/${bucket}?list-type=2`);
        const [, listed = ""] = /<LastModified>([^<]*)</.exec(list.text) ?? [];
        return [
          Date.parse(head.headers["last-modified"] ?? ""),
          Math.floor(Date.parse(listed) / 1000) * 1000,
        ];
      };
      const [before, made] = [await times(), await commits()];
      const touched = new Date((before[0] ?? 0) + 2000);
      utimesSync(join(sent, "file"), touched, touched);
      await eventually("the touch is in the past", () => Date.now() > touched.getTime() + 1000);
      await client.syncUp?.(sent, folder);
      const once = await times();
      expect(once[0]).toBeGreaterThanOrEqual(touched.getTime());
      expect(once[1]).toBe(once[0]);
      // A second one in the same second would show the same time.
      await eventually("the upload is in the past", () => Date.now() > (once[0] ?? 0) + 2000);
      await client.syncUp?.(sent, folder);
      expect(await times()).toEqual(once);
      expect(await commits()).toEqual(made);
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
