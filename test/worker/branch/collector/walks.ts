import { afterEach, beforeEach, vi } from "vitest";
import type { Content } from "../../../../worker/blobs/content.ts";
import { Effects } from "./effects.ts";
import { type Explored, explore, MemoryStore, Stage, type Walk } from "./interleavings.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

let effects: Effects;
let store: MemoryStore;

/** Each test of the file has a gateway of its own. */
export function exploresOrders(): void {
  beforeEach(() => {
    store = new MemoryStore();
    effects = new Effects();
  });
  afterEach(() => {
    effects.end();
    vi.restoreAllMocks();
  });
}

/** Bytes come first, then the name. */
const UPLOAD: Walk = [
  async (stage) => {
    const opened = await stage.branch.uploads.open({});
    if (!opened.ok) return;
    stage.memory.set("put", { upload: opened.upload, content: stage.content("put", opened) });
  },
  async (stage) => {
    const put = stage.memory.get("put") as undefined | { upload: string; content: Content };
    if (put) await stage.name(put.content, stage.branch.files.put({ path: "u", attributes: {}, ...put }));
  },
];

/** What the source is, then another name for it. */
const COPY: Walk = [
  async ({ branch, memory }) => {
    const file = await branch.files.read({ path: "s" });
    memory.set("copied", file.ok && { digest: file.digest, size: file.size });
  },
  async ({ branch, memory }) => {
    const copied = memory.get("copied") as false | { digest: string; size: number };
    if (copied) await branch.files.commit({ operations: [{ put: "c", ...copied }] });
  },
];

/** Where the bytes of the parts are, then a file that lists them. */
const COMPLETION: Walk = [
  async ({ branch, memory, begun }) => {
    const read = await branch.multipart.bodies({ upload: begun.upload, numbers: [1, 2] });
    memory.set("parts", read.ok && read.parts);
  },
  async (stage) => {
    const { branch, memory, begun } = stage;
    const read = memory.get("parts") as false | (Content & { number: number; life: number | null })[];
    if (!read || read.length === 0) return;
    const keeps = read.map(({ digest, size, life }) => ({ digest, size, life }));
    const content = { ...stage.joined(read), keeps };
    const parts = read.map(({ number, digest, size }) => ({ number, digest, size }));
    await branch.multipart.complete({ upload: begun.upload, parts, content, attributes: {} });
  },
];

/** A part gives way to another one, and then comes again in other blobs. */
const PART_AGAIN: Walk = [
  async (stage) => {
    const { branch, begun } = stage;
    const content = stage.content("other part", begun);
    await stage.name(content, branch.multipart.addPart({ upload: begun.upload, number: 1, content }));
  },
  async (stage) => {
    const { branch, begun } = stage;
    const content = stage.content("part", begun, "again");
    await stage.name(content, branch.multipart.addPart({ upload: begun.upload, number: 1, content }));
  },
];

const ABORTION: Walk = [
  async ({ branch, begun }) => {
    await branch.multipart.abort(begun);
  },
];

const DELETION: Walk = [
  async ({ branch }) => {
    await branch.lifecycle.destroy();
  },
  async ({ branch }) => {
    await branch.lifecycle.create();
  },
];

const OPEN_COMMIT: Walk = [
  async (stage) => {
    const { branch, openCommit } = stage;
    const opened = await branch.uploads.open({});
    if (!opened.ok) return;
    const content = stage.content("staged", opened);
    const { upload } = opened;
    await stage.name(content, branch.files.put({ openCommit, path: "o", content, attributes: {}, upload }));
  },
  async ({ branch, openCommit }) => {
    await branch.openCommits.finish({ openCommit });
  },
];

const STAGED_COPY: Walk = [
  async ({ branch, openCommit }) => {
    const file = await branch.files.read({ path: "s" });
    if (!file.ok) return;
    const operations = [{ put: "o", digest: file.digest, size: file.size }];
    await branch.files.commit({ openCommit, operations });
  },
  async ({ branch, openCommit }) => {
    await branch.openCommits.abort({ openCommit });
  },
];

const FORK: Walk = [
  async ({ fork, bucket }) => {
    for (;;) {
      const made = await fork.lifecycle.fork({ parent: bucket });
      if (!made.ok || made.ready) return;
      await scheduler.wait(1);
    }
  },
  async ({ fork }) => {
    await fork.lifecycle.destroy();
  },
];

/** Of the history only the newest commit stays, and then the source is no more in it. */
const FORGETTING: Walk = [
  async ({ branch }) => {
    await branch.settings.change({ keep: { commits: 1 } });
  },
  async ({ branch }) => {
    await branch.files.commit({ operations: [{ delete: "s" }] });
  },
];

/** Whatever is due by now happens: uploads run out, what is condemned goes. */
const COLLECTION: Walk = [(stage) => stage.pass(10 * MINUTE_MS), (stage) => stage.pass(2 * 60 * MINUTE_MS)];

const WALKS = {
  UPLOAD,
  COPY,
  COMPLETION,
  PART_AGAIN,
  ABORTION,
  DELETION,
  FORGETTING,
  OPEN_COMMIT,
  STAGED_COPY,
  FORK,
  COLLECTION,
};
export type WalkName = keyof typeof WALKS;

/** Throws in words: how a run came to it is told around it. */
function expectNone(faults: readonly string[]): void {
  if (faults.length > 0) throw new Error(faults.join("\n"));
}

/** Runs the walks in every order of their steps: after each step names read, and at the end nothing else is left. */
export function everyOrder(...names: readonly WalkName[]): Promise<Explored> {
  return explore({
    walks: names.map((name) => WALKS[name]),
    set: () => Stage.set(effects, store),
    restWithin: 1,
    async look(stage) {
      expectNone(await stage.unreadable());
    },
    async end(stage) {
      await stage.pass(30 * DAY_MS);
      expectNone(await stage.unreadable());
      expectNone(await stage.leftOver());
    },
  });
}

/** Each two of them meet, with the blob reaper. */
const EVERYBODY = ["UPLOAD", "COPY", "COMPLETION", "DELETION", "FORGETTING", "OPEN_COMMIT", "FORK"] as const;

const MORE: readonly (readonly WalkName[])[] = [
  ["COMPLETION", "PART_AGAIN", "DELETION", "COLLECTION"],
  ["STAGED_COPY", "FORGETTING", "FORK", "COLLECTION"],
  ["COMPLETION", "ABORTION", "FORGETTING", "COLLECTION"],
];

/** Who meets: in two halves, as two runtimes go through them at the same time. */
export function meetings(half: 0 | 1): (readonly WalkName[])[] {
  const pairs = EVERYBODY.flatMap((one, index) =>
    EVERYBODY.slice(index + 1).map((other): readonly WalkName[] => [one, other, "COLLECTION"]),
  );
  return [...pairs, ...MORE].filter((_, index) => index % 2 === half);
}

/** How a meeting is called. */
export function nameOf(meeting: readonly WalkName[]): string {
  return meeting.join(" × ").toLowerCase().replaceAll("_", " ");
}
