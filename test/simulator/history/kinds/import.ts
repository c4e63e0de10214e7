import type { ArchivedFile, ImportProgress } from "../../../../protocol/archives.ts";
import type {
  ArchivedBytes,
  ImportCalls,
  ImportedFile,
  PageImported,
} from "../../../../worker/branch/contract/archives.ts";
import type { Archive } from "../archives.ts";
import { idOf, inBlob, inline } from "../bytes.ts";
import { insisted } from "../mishaps.ts";
import { type Answer, UNKNOWN } from "../model.ts";
import { BUCKETS, type Kind, type Stage, type Turn } from "../stage.ts";
import { refusal } from "./answers.ts";
import { destroyOne } from "./branches.ts";
import { damaged } from "./damage.ts";
import { changeSettings } from "./settings.ts";

/** Branches that are made of archives, some of which do not fit together. Whoever brings one may go away at any page. */
export const IMPORT_KINDS = { import: { weight: 4, take: importOne } } satisfies Record<string, Kind>;

/** Whoever tries damaged archives tries so many. */
const DAMAGED_AT_ONCE = 8;
/** How often somebody goes on where it stopped. */
const TRIES = 3;

async function importOne(stage: Stage, turn: Turn): Promise<void> {
  const { id, random } = turn;
  const whole = random.chance(0.5) ? stage.archives.at(-1) : random.pick([...stage.archives, undefined]);
  if (!whole) return;
  const isFree = (one: string) => stage.facts.get(one)?.last.generation === null;
  const free = BUCKETS.filter(isFree);
  const bucket = free.length > 0 && random.chance(0.9) ? random.pick(free) : turn.bucket;
  if (!isFree(bucket) && random.chance(0.5)) await destroyOne(stage, { id: `${id}.before`, bucket });
  const to = { ...turn, bucket };
  if (random.chance(0.4)) {
    for (const { what, archive } of damaged(stage.archives, { most: DAMAGED_AT_ONCE, random })) {
      stage.tally.add(`archive ${what}`);
      await importArchive(stage, to, { archive, damage: what });
    }
  } else await importArchive(stage, to, { archive: whole, damage: undefined });
  // It is protected as the one in the archive was, whose client let nobody else write for a while.
  if (stage.facts.get(bucket)?.last.settled.writer)
    await changeSettings(stage, { id: `${id}.free`, bucket }, { writer: null });
}

async function importArchive(
  stage: Stage,
  turn: Turn,
  what: { readonly archive: Archive; readonly damage: string | undefined },
): Promise<void> {
  const work = new Importing(stage, turn, what);
  for (let n = 0; n < TRIES; n++) if ((await work.run()) !== "broken" || turn.random.chance(0.3)) break;
}

/** `broken`: no answer came, and somebody may go on. */
type Outcome = "done" | "refused" | "broken" | "left";

/** Says how far it is, or how it ended. */
type Progress = ImportProgress | Outcome;

class Importing {
  readonly #stage: Stage;
  readonly #turn: Turn;
  readonly #archive: Archive;
  readonly #calls: ImportCalls;
  /** What is wrong with the archive, so that it must be refused. */
  readonly #damage: string | undefined;
  #asked = 0;

  constructor(
    stage: Stage,
    turn: Turn,
    { archive, damage }: { archive: Archive; damage: string | undefined },
  ) {
    this.#stage = stage;
    this.#turn = turn;
    this.#archive = archive;
    this.#damage = damage;
    this.#calls = stage.branch(turn.bucket).imports;
  }

  async run(): Promise<Outcome> {
    const { random } = this.#turn;
    const { id: archive, branch } = this.#archive;
    const begun = await this.#ask("begin", () => this.#calls.begin({ archive, branch }));
    if (!begun?.ok) return begun ? "refused" : "broken";
    if (begun.done) return "done";
    const { import: uid, upload } = begun;
    if (random.chance(0.15)) await this.#tooEarly(uid, begun.progress);
    let progress: Progress = await this.#commits(uid, begun.progress);
    if (typeof progress === "string") return progress;
    if (random.chance(0.05)) return "left";
    if (random.chance(0.03)) {
      await insisted(() => this.#calls.abort({ import: uid }).then(() => true));
      return "left";
    }
    progress = await this.#tags(uid, progress);
    if (typeof progress !== "string") progress = await this.#files(uid, { progress, upload });
    if (typeof progress === "string") return progress;
    return random.chance(0.05) ? "left" : await this.#finish(uid);
  }

  /** What names commits comes after these, and an end after all. */
  async #tooEarly(uid: string, { commits, tags, files }: ImportProgress): Promise<void> {
    if (commits >= this.#archive.branch.head) return;
    const counts = { commits: 1, tags: 0, files: 0 };
    const answers = [
      await insisted(() => this.#calls.tags({ import: uid, after: tags, tags: [] })),
      await insisted(() => this.#calls.files({ import: uid, after: files, files: [], contents: [] })),
      await insisted(() => this.#calls.finish({ import: uid, counts })),
    ];
    // Somebody else may bring the rest of it meanwhile.
    const { bucket, id } = this.#turn;
    const isOther = this.#stage.imports.some(
      (one) => one.bucket === bucket && one.archive.id === this.#archive.id,
    );
    if (answers[2]?.ok && !isOther)
      this.#stage.wrong.push(`${bucket}: the import ${id} was finished too early`);
  }

  async #commits(uid: string, begun: ImportProgress): Promise<Progress> {
    return await this.#pages(begun, ({ commits: after }) => {
      const commits = this.#archive.commits
        .filter(([seq]) => seq > after)
        .slice(0, 1 + this.#turn.random.below(4));
      if (commits.length === 0) return undefined;
      return this.#ask("commits", () => this.#calls.commits({ import: uid, after, commits }));
    });
  }

  async #tags(uid: string, begun: ImportProgress): Promise<Progress> {
    return await this.#pages(begun, ({ tags: after }) => {
      const tags = this.#archive.tags
        .filter(([name]) => name > after)
        .slice(0, 1 + this.#turn.random.below(2));
      if (tags.length === 0) return undefined;
      return this.#ask("tags", () => this.#calls.tags({ import: uid, after, tags }));
    });
  }

  async #files(
    uid: string,
    { progress, upload }: { progress: ImportProgress; upload: string },
  ): Promise<Progress> {
    return await this.#pages(progress, ({ files: after }) => {
      const page = this.#archive.files
        .filter(([path, born]) => path > after.path || (path === after.path && born > after.born))
        .slice(0, 1 + this.#turn.random.below(6));
      if (page.length === 0) return undefined;
      return this.#bring(page, { uid, upload }).then(
        (contents) =>
          contents &&
          this.#ask("files", () =>
            this.#calls.files({ import: uid, after, files: page.map(fileOf), contents }),
          ),
      );
    });
  }

  /** Sends one page after the other. `send` answers undefined at once if there is none. */
  async #pages(
    begun: ImportProgress,
    send: (
      progress: ImportProgress,
    ) => Promise<PageImported | { readonly ok: false } | undefined> | undefined,
  ): Promise<Progress> {
    let progress = begun;
    for (;;) {
      const sent = send(progress);
      if (!sent) return progress;
      const answer = await sent;
      if (!answer?.ok) return answer ? "refused" : "broken";
      // Somebody else brings it, too, or it is out of order.
      if (JSON.stringify(answer.progress) === JSON.stringify(progress)) return "refused";
      progress = answer.progress;
    }
  }

  async #finish(uid: string): Promise<Outcome> {
    const { random, bucket } = this.#turn;
    const archive = this.#archive;
    const { commits, tags, files } = archive;
    const more = this.#damage === "counts" ? 1 : 0;
    const counts = { commits: commits.length, tags: tags.length, files: files.length + more };
    this.#stage.imports.push({ bucket, archive, begun: this.#stage.stamp() });
    const key = random.chance(0.5) ? { key: "ann" } : {};
    const answer = await this.#ask("finish", () => this.#calls.finish({ import: uid, counts, ...key }));
    return answer ? (answer.ok ? "done" : "refused") : "broken";
  }

  /** Small contents go with their page, or as others do: bytes first. Undefined: it did not come so far. */
  async #bring(page: readonly ArchivedFile[], { uid, upload }: Target): Promise<ArchivedBytes[] | undefined> {
    const along: ArchivedBytes[] = [];
    if (this.#damage === "content") return along;
    const digests = new Set(
      page.flatMap(([path, , , digest, , , more]) => (more?.deletion || path.endsWith("/") ? [] : digest)),
    );
    for (const digest of digests) {
      const text = this.#stage.texts.get(digest);
      const brought = text === undefined || (await this.#bringOne(text, { uid, upload, along }));
      if (!brought) return undefined;
    }
    return along;
  }

  async #bringOne(
    text: string,
    { uid, upload, along }: Target & { along: ArchivedBytes[] },
  ): Promise<boolean> {
    const { random, bucket } = this.#turn;
    const { uploads } = this.#stage.branch(bucket);
    const which = random.next();
    if (which < 0.6) {
      // What the branch has already needs not come.
      const reserved =
        which < 0.2 ? await insisted(() => uploads.reserve({ upload, contents: [idOf(text)] })) : null;
      const isThere = reserved?.ok && reserved.missing.length === 0;
      if (!isThere) along.push({ ...idOf(text), bytes: new TextEncoder().encode(text) });
      return reserved !== undefined;
    }
    const blob = which < 0.9 ? await this.#stage.writeBlob(text, { uid, upload }) : undefined;
    const content = blob === undefined ? inline(text) : inBlob(text, blob);
    const added = await insisted(() => uploads.add({ upload, contents: [content] }));
    if (added?.ok && blob !== undefined) this.#stage.known.add(blob);
    return added !== undefined;
  }

  /** A call of the import, and what its answer says: what is right is not refused, and what is wrong is not done. */
  async #ask<T extends Told>(
    what: "begin" | "commits" | "tags" | "files" | "finish",
    call: () => Promise<T>,
  ): Promise<T | undefined> {
    const { id, bucket } = this.#turn;
    const name = this.#archive.id.slice(0, 6);
    const text = `import ${id} ${what} of ${name}${this.#damage ? `, which has ${this.#damage}` : ""}`;
    const asked = { id: `${id}.${what}.${this.#asked++}`, bucket, text };
    // Now and then it comes twice, as if the first answer had been lost.
    if (this.#turn.random.chance(0.2)) await insisted(call);
    return await this.#stage.ask(asked, call, (answer) => this.#answerOf(what, answer));
  }

  #answerOf(what: string, answer: Told): Answer {
    const isWhole = this.#damage === undefined;
    if (answer.ok) {
      // On its way it is no state of the branch.
      if (what !== "finish") return UNKNOWN;
      return { kind: "saw", what: "imported", of: ({ generation }) => generation !== null && isWhole };
    }
    const { reason = "", path = "", message = "" } = answer;
    if (reason !== "bad-archive" && reason !== "no-such-content") return refusal({ reason });
    return { kind: "saw", what: `${reason} ${path} ${message}`, of: () => !isWhole };
  }
}

/** The generation that is made, and the upload by which its contents come. */
interface Target {
  readonly uid: string;
  readonly upload: string;
}

interface Told {
  readonly ok: boolean;
  readonly reason?: string;
  readonly path?: string;
  readonly message?: string;
}

function fileOf([path, born, died, digest, size, text, more]: ArchivedFile): ImportedFile {
  const attributes = text === null ? {} : JSON.parse(text);
  return { path, born, died, digest, size, attributes, more };
}
