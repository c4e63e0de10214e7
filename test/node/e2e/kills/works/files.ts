import { changed } from "../../../../simulator/history/model.ts";
import { isSame, type State } from "../../../../simulator/history/states.ts";
import type { Answer } from "../../../../support/http.ts";
import { objectTarget } from "../../../../support/s3.ts";
import { isAway, S3_TAG, saidOf, unexpected, wrote } from "../client.ts";
import { wholeDigest } from "../contents.ts";
import { Unexpected } from "../history.ts";
import { ERASED_FOLDER, type Life, type Told } from "../life.ts";
import type { Load, Work } from "../load.ts";

/** Keys that all clients write to. */
export const KEYS = ["a", "b", "c", "dir/d", "dir/e", "dir/sub/f"];
const TOGETHER = Array.from({ length: 12 }, (_, n) => `together/${String(n).padStart(2, "0")}`);

/** Reads and writes of files. */
export const FILES: readonly Work[] = [
  async (load) => {
    const work = load.oneOf([put, put, put, remove, copy, read, read, list]);
    await work(load, load.branch());
  },
  async (load) => {
    const work = load.oneOf([put, read, read, list]);
    await work(load, load.branch());
  },
];

/** As a condition of a write: what must be at a key; undefined: nothing may be. */
interface Condition {
  readonly headers: Record<string, string>;
  readonly holds: (state: State) => boolean;
}

async function put(load: Load, life: Life): Promise<void> {
  if (!life.admits()) return await read(load, life);
  const key = load.oneOf(KEYS);
  await putAt(load, { life, key, condition: load.random() < 0.35 ? conditionAt(life, key) : undefined });
}

/** One PUT of a content. */
export async function putAt(
  load: Load,
  {
    life,
    key,
    condition,
    size,
  }: { life: Life; key: string; condition?: Condition | undefined; size?: number },
): Promise<void> {
  const { history, client } = load;
  const { bytes, digest, etag } = size === undefined ? load.content() : load.ownContent(size);
  const id = history.id();
  const holds = condition?.holds ?? (() => true);
  await history.ask(
    life,
    {
      ...{ id, kind: condition ? "conditional put" : "put" },
      text: `put ${id} of ${key} = ${digest.slice(0, 6)}${condition ? ` if ${JSON.stringify(condition.headers)}` : ""}`,
      leads: ({ before, after }) =>
        holds(before) && isSame(after.tree, changed(before.tree, [[key, digest]])),
    },
    {
      call: () => {
        const headers = { ...saidOf(id), ...condition?.headers };
        return client.s3("PUT", objectTarget(life.bucket, key), { headers, body: bytes });
      },
      told: (answer) => {
        if (condition && (answer.status === 412 || answer.text.includes("<Code>NoSuchKey<")))
          return { kind: "saw", what: String(answer.status), of: (state) => !holds(state) };
        const told = wrote(answer);
        if (told.kind === "wrote" && answer.headers.etag !== etag) throw unexpected(answer);
        life.lastSeen.set(key, etag);
        return told;
      },
    },
  );
}

function conditionAt(life: Life, key: string): Condition {
  const etag = life.lastSeen.get(key);
  if (etag === undefined) return { headers: { "if-none-match": "*" }, holds: ({ tree }) => !tree.has(key) };
  return { headers: { "if-match": etag }, holds: ({ tree }) => tree.get(key) === digestIn(etag) };
}

async function remove(load: Load, life: Life): Promise<void> {
  if (life.admits()) await removeAt(load, { life, key: load.oneOf(KEYS) });
}

export async function removeAt(load: Load, { life, key }: { life: Life; key: string }): Promise<void> {
  const id = load.history.id();
  await load.history.ask(
    life,
    {
      ...{ id, kind: "delete", text: `delete ${id} of ${key}` },
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [[key, null]])),
    },
    {
      call: () => load.client.s3("DELETE", objectTarget(life.bucket, key), { headers: saidOf(id) }),
      told: (answer) => wrote(answer),
    },
  );
}

/** From the same branch, or from another one, whose bytes are then copied. */
async function copy(load: Load, life: Life): Promise<void> {
  if (!life.admits()) return;
  const { history, client } = load;
  const source = load.random() < 0.6 ? life : load.branch();
  const from = load.oneOf(KEYS);
  // Onto itself nothing is copied.
  const key = load.oneOf(KEYS.filter((other) => source !== life || other !== from));
  const id = history.id();
  const begun = history.now();
  let ended = Number.POSITIVE_INFINITY;
  await history.ask(
    life,
    {
      ...{ id, kind: "copy", text: `copy ${id} of ${from} of ${source.bucket} to ${key}` },
      leads: ({ before, after }) =>
        history
          .between(source.bucket, [begun, ended])
          .flatMap(({ tree }) => tree.get(from) ?? [])
          .some((digest) => isSame(after.tree, changed(before.tree, [[key, digest]]))),
    },
    {
      call: async () => {
        const headers = { ...saidOf(id), "x-amz-copy-source": objectTarget(source.bucket, from) };
        const answer = await client.s3("PUT", objectTarget(life.bucket, key), { headers });
        ended = history.now();
        return answer;
      },
      told: (answer) => {
        const isAbsent = answer.status === 404 && answer.text.includes("<Code>NoSuchKey<");
        return isAbsent ? { kind: "saw", what: "404", of: () => true } : wrote(answer);
      },
    },
  );
}

async function read(load: Load, life: Life): Promise<void> {
  const key = load.oneOf([...KEYS, ...TOGETHER.slice(0, 2), "open/0", "parts/0"]);
  const id = load.history.id();
  await load.history.ask(
    life,
    { id, kind: "read", text: `read ${id} of ${key}` },
    {
      call: () => load.client.s3("GET", objectTarget(life.bucket, key)),
      told: (answer) => readTold(life, key, answer),
    },
  );
}

function readTold(life: Life, key: string, answer: Answer): Told {
  if (isAway(answer)) return { kind: "unknown" };
  const isAbsent = answer.status === 404 && answer.text.includes("<Code>NoSuchKey<");
  if (answer.status !== 200 && !isAbsent) throw unexpected(answer);
  // Byte for byte: the digest is that of what came.
  const digest = isAbsent ? undefined : readDigest(answer.body);
  if (digest !== undefined && digest !== digestIn(answer.headers.etag ?? "")) throw unexpected(answer);
  if (digest === undefined) life.lastSeen.delete(key);
  else life.lastSeen.set(key, answer.headers.etag ?? "");
  const what = `read ${digest?.slice(0, 6) ?? "nothing"}`;
  return { kind: "saw", what, of: ({ tree }) => tree.get(key) === digest };
}

function readDigest(bytes: Buffer): string {
  try {
    return wholeDigest(bytes);
  } catch (error) {
    throw new Unexpected(`the answer is mixed: ${error}`);
  }
}

async function list(load: Load, life: Life): Promise<void> {
  const id = load.history.id();
  await load.history.ask(
    life,
    { id, kind: "list", text: `list ${id}` },
    {
      call: () => load.client.s3("GET", `/${life.bucket}?list-type=2`),
      told: (answer) => {
        if (isAway(answer)) return { kind: "unknown" };
        if (answer.status !== 200) throw unexpected(answer);
        const tree = listed(answer.text);
        return {
          kind: "saw",
          what: `listed ${JSON.stringify([...tree].map(([key, digest]) => `${key}: ${digest.slice(0, 6)}`))}`,
          of: (state) => isSame(state.tree, tree),
        };
      },
    },
  );
}

/** The digests of a listing by their keys, without what is erased. */
export function listed(xml: string): ReadonlyMap<string, string> {
  const rows = xml.matchAll(/<Contents>.*?<Key>([^<]*)<.*?<ETag>([^<]*)<.*?<\/Contents>/gs);
  const entries = [...rows].map(([, key = "", tag = ""]) => [key, digestIn(tag)] as const);
  return new Map(entries.filter(([key]) => !key.startsWith(ERASED_FOLDER)));
}

function digestIn(tag: string): string {
  return S3_TAG.exec(tag.replaceAll("&quot;", '"'))?.[1] ?? tag;
}

/** Twelve files in one commit, which is seen whole or not at all. */
export const BULK: Work = async (load) => {
  const { history, client } = load;
  const life = load.branch();
  const opened = await client.until(() =>
    client.control("POST", "/uploads", { repo: life.repo, branch: life.branch }),
  );
  if (opened.status !== 201) throw unexpected(opened);
  const { upload } = JSON.parse(opened.text);
  const files = TOGETHER.map((key, n) => ({ key, content: load.ownContent(n === 0 ? 60_000 : 500 + n) }));
  const [large, ...small] = files.map(({ content }) => ({
    ...{ digest: content.digest, size: content.bytes.length, bytes: content.bytes },
  }));
  if (!large) return;
  const target = `/api/v1/uploads/${upload}/contents`;
  const added = await client.until(() =>
    client.s3("PUT", `${target}?digest=${large.digest}&size=${large.size}`, { body: large.bytes }),
  );
  if (added.status >= 300) throw unexpected(added);
  const contents = small.map(({ bytes, ...id }) => ({ ...id, bytes: bytes.toString("base64") }));
  const others = await client.until(() =>
    client.control("POST", `/uploads/${upload}/contents`, { contents }),
  );
  if (others.status >= 300) throw unexpected(others);
  if (!life.admits()) return;
  const id = history.id();
  const puts = files.map(({ key, content }) => [key, content.digest] as const);
  const operations = files.map(({ key, content }) => ({
    ...{ put: key, digest: content.digest, size: content.bytes.length },
  }));
  await history.ask(
    life,
    {
      ...{ id, kind: "commit of 12 files", text: `commit ${id} of ${TOGETHER.length} files` },
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, puts)),
    },
    {
      call: () => client.control("POST", `${life.path}/commits`, { upload, operations, message: id }),
      told: (answer) => {
        if (isAway(answer)) return { kind: "unknown" };
        if (answer.status !== 201) throw unexpected(answer);
        return { kind: "wrote", version: JSON.parse(answer.text).commit };
      },
    },
  );
};
