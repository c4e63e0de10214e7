import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import type { Client, Folder } from "../../support/clients/client.ts";
import { curl } from "../../support/clients/curl.ts";
import { inByteOrder, readFolder, writeFolder } from "../../support/clients/samples.ts";
import { seededBytes } from "../../support/random.ts";
import { commitMany } from "./many-files.ts";
import { type Story, story } from "./story.ts";

/** What keys may be made of, and clients, shells and URLs stumble over. */
const ODD_NAMES = [
  "space in it.txt",
  "+plus+and++plus.txt",
  "100% %20 %2F.txt",
  "[brackets] (round) {curly}.txt",
  "ünï-çödé 日本語.txt",
  "emoji 😀.txt",
  'quote\'s "double" & <angle>.txt',
  "a=b;c,d:e@f!g$h~i^j`k|l.txt",
  "question?mark#hash.txt",
  "trailing dot.",
  "folder with space/+/ü/deep.txt",
];
const SYNCED_FILES = 500;
const MANY = 1200;

/** Many files: listed, under odd names, in sync, deleted; and links. */
export const FOLDER_STORIES: readonly Story[] = [
  story("lists 2,400 keys page by page, and folds them at a slash", {
    needs: [],
    async tell({ client, bucket, control }) {
      const number = (n: number): string => String(n).padStart(4, "0");
      const nested = Array.from({ length: MANY }, (_, n) => `a/folder-${number(n)}/file`);
      const flat = Array.from({ length: MANY }, (_, n) => `a/key-${number(n)}`);
      await commitMany(control, { repo: repoOf(bucket), paths: [...nested, ...flat, "b"] });

      expect(inByteOrder(await client.list({ bucket, prefix: "" }))).toEqual([...nested, ...flat, "b"]);
      const { keys, folders } = await client.browse({ bucket, prefix: "a/" });
      expect(inByteOrder(keys)).toEqual(flat);
      expect(inByteOrder(folders)).toEqual(nested.map((key) => key.replace(/file$/, "")));
      expect(await client.browse({ bucket, prefix: "" })).toEqual({ keys: ["b"], folders: ["a/"] });
    },
  }),
  story("keeps names with spaces, Unicode, emoji, plus, percent and brackets as they are", {
    needs: [],
    async tell({ client, bucket, scratch, s3 }) {
      const [sent, received] = [join(scratch, "sent"), join(scratch, "received")];
      writeFolder(sent, Object.fromEntries(ODD_NAMES.map((name) => [name, `it says ${name}\n`])));
      const folder = { bucket, prefix: "odd names/" };
      await putFolder(client, { folder, path: sent });
      const keys = inByteOrder(ODD_NAMES.map((name) => folder.prefix + name));
      expect(await s3.keys(bucket)).toEqual(keys);
      expect(inByteOrder(await client.list(folder))).toEqual(keys);
      await getFolder(client, { folder, path: received });
      expect(readFolder(received)).toEqual(readFolder(sent));
    },
  }),
  story("deletes many files, and no others", {
    needs: [],
    async tell({ client, bucket, s3, control }) {
      const staying = ["folder", "folder-2/1", "other/1.txt"];
      const going = [...ODD_NAMES, ...Array.from({ length: 20 }, (_, n) => `${n}.txt`)];
      const under = (name: string): string => `folder+/${name}`;
      await commitMany(control, { repo: repoOf(bucket), paths: [...staying, ...going.map(under)] });
      await client.remove(bucket, going.map(under));
      expect(await s3.keys(bucket)).toEqual(staying);
    },
  }),
  story("makes a link by which curl reads a file", {
    needs: ["linkToGet"],
    async tell({ client, bucket, s3 }) {
      const place = { bucket, key: "linked/ü + 50%.txt" };
      await s3.put(bucket, place.key, "read by link\n");
      expect(await curl(await client.linkToGet(place))).toBe("read by link\n");
    },
  }),
  story("makes a link by which curl writes a file", {
    needs: ["linkToPut"],
    async tell({ client, bucket, scratch, s3 }) {
      const file = join(scratch, "file");
      const bytes = seededBytes(3_000_000, 7);
      writeFileSync(file, bytes);
      const place = { bucket, key: "linked/ü + 50%.bin" };
      await curl("--upload-file", file, await client.linkToPut(place));
      expect((await s3.get(bucket, place.key))?.equals(bytes)).toBe(true);
    },
  }),
  story(`syncs ${SYNCED_FILES} files up, then none of them after an unrelated commit, and all of them down`, {
    needs: ["syncUp", "syncDown"],
    async tell({ client, bucket, scratch, s3 }) {
      const [sent, received] = [join(scratch, "sent"), join(scratch, "received")];
      const files = Array.from({ length: SYNCED_FILES }, (_, n) => [
        `${n % 7}/${n}.bin`,
        seededBytes(10 + n * 20, n),
      ]);
      writeFolder(sent, Object.fromEntries(files));
      mkdirSync(received);
      const folder = { bucket, prefix: "synced/" };
      await client.syncUp(sent, folder);
      expect((await s3.keys(bucket, folder.prefix)).length).toBe(SYNCED_FILES);

      const { version } = await s3.put(bucket, "unrelated", "a commit that is newer than all of them\n");
      await client.syncUp(sent, folder);
      expect(await s3.headCommit(bucket)).toBe(version);

      await client.syncDown(folder, received);
      expect(readFolder(received)).toEqual(readFolder(sent));
    },
  }),
];

function repoOf(bucket: string): string {
  return bucket.slice(bucket.indexOf(".") + 1);
}

interface Both {
  readonly folder: Folder;
  /** On disk. */
  readonly path: string;
}

/** By the client's own word for it, or file by file. */
async function putFolder(client: Client, { folder, path }: Both): Promise<void> {
  if (client.putFolder) return client.putFolder(path, folder);
  for (const name of Object.keys(readFolder(path))) {
    await client.put(join(path, name), { ...folder, key: folder.prefix + name });
  }
}

async function getFolder(client: Client, { folder, path }: Both): Promise<void> {
  mkdirSync(path);
  if (client.getFolder) return client.getFolder(folder, path);
  for (const key of await client.list(folder)) {
    const file = join(path, key.slice(folder.prefix.length));
    mkdirSync(dirname(file), { recursive: true });
    await client.get({ ...folder, key }, file);
  }
}
