import type { ContentId } from "../../../protocol/content.ts";
import { parseContentName } from "../../../protocol/content.ts";
import { Control } from "../../support/control.ts";
import { expectedEtag } from "../../support/expected-etag.ts";
import { isGone } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";
import { describeWhole, selfDescribing } from "../../support/self-describing.ts";

const REPO = "load";
const BUCKET = `master.${REPO}`;
const FILES_PER_COMMIT = 12;
/** Inline, one blob, and three chunks: the three ways to keep a content. */
const SIZES = [900, 60_000, 9_000_000] as const;

interface Sent {
  readonly key: string;
  readonly nonce: number;
  acknowledged: boolean;
}

/**
 * Parallel writers against a gateway that dies under them, and what they were promised. The server is told from
 * outside when it lives; a writer ends at its first error.
 */
export class KillLoad {
  readonly #s3: S3;
  readonly #control: Control;
  readonly #puts: Sent[] = [];
  readonly #commits: Sent[] = [];
  #nonce = 0;

  constructor(door: Door) {
    this.#s3 = new S3(door);
    this.#control = new Control(door);
  }

  get acknowledged(): { puts: number; commits: number } {
    const count = (sent: readonly Sent[]): number => sent.filter(({ acknowledged }) => acknowledged).length;
    return { puts: count(this.#puts), commits: count(this.#commits) };
  }

  get sent(): { puts: number; commits: number } {
    return { puts: this.#puts.length, commits: this.#commits.length };
  }

  createBucket(): Promise<void> {
    return this.#s3.createBucket(BUCKET);
  }

  /** Writes in parallel until the gateway is gone; answers when every writer has noticed. */
  async run(round: number): Promise<void> {
    await Promise.all([
      // Keys of their own, and keys that are written over and over.
      ...SIZES.map((size) => this.#untilGone((n) => this.#put(`fresh/${round}-${size}-${n}`, size))),
      ...SIZES.map((_, first) => this.#untilGone((n) => this.#put(`again/${first}`, sizeAt(first + n)))),
      this.#untilGone((n) => this.#commit(`commit-${round}-${n}`)),
      this.#untilGone(() => this.#commit("together")),
    ]);
  }

  /** Holds the gateway to its promises since `from`; an error says which it broke. */
  async verify(from: { puts: number; commits: number }): Promise<void> {
    const puts = Map.groupBy(this.#puts.slice(from.puts), ({ key }) => key);
    const commits = Map.groupBy(this.#commits.slice(from.commits), ({ key }) => key);
    await inTurns([...puts], ([key, sent]) => this.#verifyPut(key, sent));
    await inTurns([...commits], ([folder, sent]) => this.#verifyCommit(folder, sent));
  }

  async #untilGone(write: (n: number) => Promise<void>): Promise<void> {
    try {
      for (let n = 0; ; n++) await write(n);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  }

  async #put(key: string, size: number): Promise<void> {
    const sent: Sent = { key, nonce: this.#nonce++, acknowledged: false };
    this.#puts.push(sent);
    const body = selfDescribing({ key, nonce: sent.nonce, size });
    const { etag } = await this.#s3.put(BUCKET, key, body);
    sent.acknowledged = true;
    if (etag !== expectedEtag(body)) throw new Error(`${key} was acknowledged with ${etag}`);
  }

  async #commit(folder: string): Promise<void> {
    const sent: Sent = { key: folder, nonce: this.#nonce++, acknowledged: false };
    this.#commits.push(sent);
    const files = filesOf(sent).map(({ key, body }) => ({ key, body, id: contentId(body) }));
    const upload = await this.#control.openUpload(REPO);
    const [large, ...small] = files;
    if (large) await this.#control.addContent(upload, large.body, large.id);
    await this.#control.addInlineContents(
      upload,
      small.map(({ body, id }) => ({ ...id, bytes: body.toString("base64") })),
    );
    await this.#control.commit(
      REPO,
      upload,
      files.map(({ key, id }) => ({ put: key, ...id })),
    );
    sent.acknowledged = true;
  }

  async #verifyPut(key: string, sent: readonly Sent[]): Promise<void> {
    const bytes = await this.#s3.get(BUCKET, key);
    expectOneOf(key, sent, bytes && describeWhole(key, bytes).nonce);
  }

  async #verifyCommit(folder: string, sent: readonly Sent[]): Promise<void> {
    const keys = await this.#s3.keys(BUCKET, `${folder}/`);
    const nonces = new Set<number>();
    for (const key of keys) {
      const bytes = (await this.#s3.get(BUCKET, key)) ?? Buffer.alloc(0);
      nonces.add(describeWhole(key, bytes).nonce);
    }
    const whole = keys.length === FILES_PER_COMMIT && nonces.size === 1;
    if (keys.length > 0 && !whole) {
      throw new Error(
        `${folder} has ${keys.length} of ${FILES_PER_COMMIT} files, of writes ${[...nonces].join(", ")}`,
      );
    }
    expectOneOf(folder, sent, [...nonces][0]);
  }
}

/**
 * One writer a name, one write after the other: what is there must be the last acknowledged write, or the one that was
 * under way when the gateway died; `sent` may begin after writes that are allowed where none of it was acknowledged.
 */
function expectOneOf(name: string, sent: readonly Sent[], found: number | undefined): void {
  const last = sent.findLast(({ acknowledged }) => acknowledged);
  if (last === undefined && (found === undefined || found < (sent[0]?.nonce ?? 0))) return;
  if (found === undefined) throw new Error(`${name} was acknowledged and is gone`);
  const underWay = sent.some(
    ({ nonce, acknowledged }) => nonce === found && !acknowledged && nonce > (last?.nonce ?? -1),
  );
  if (found !== last?.nonce && !underWay) {
    throw new Error(`${name} holds write ${found}, though write ${last?.nonce} was acknowledged`);
  }
}

function filesOf({ key: folder, nonce }: Sent): { key: string; body: Buffer }[] {
  return Array.from({ length: FILES_PER_COMMIT }, (_, n) => {
    const key = `${folder}/${String(n).padStart(2, "0")}`;
    return { key, body: selfDescribing({ key, nonce, size: n === 0 ? 60_000 : 500 + n }) };
  });
}

function sizeAt(n: number): number {
  return SIZES[n % SIZES.length] as number;
}

function contentId(bytes: Buffer): ContentId {
  return parseContentName(expectedEtag(bytes).slice(1, -1)) as ContentId;
}

/** Four at a time, so that the check of many files neither crawls nor floods. */
async function inTurns<T>(items: readonly T[], check: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) await check(item);
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
}
