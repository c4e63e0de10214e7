import { z } from "zod";
import { SessionOpened } from "../../../protocol/files.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { Tally } from "../tally.ts";
import { type ApiAsk, BODIES, ONE } from "./api-asks.ts";
import { KEYS } from "./documents.ts";
import { type Ground, headOf, leave, mustBeSound, mustHave } from "./ground.ts";
import { faultOf } from "./rules.ts";
import { encode, sha256, signed } from "./signing.ts";
import { exchangeRaw, type RawAnswer } from "./wire.ts";

/*
 * A story of the control API: a repo with two branches, a tag, an open commit, an upload and a pipeline with a job and a node, and
 * a few requests. A refused one leaves HEAD where it was. At the end each file has the bytes that it had, but for those that an
 * accepted request named; what a commit put is what was uploaded.
 */
export async function playApi(ground: Ground, asks: readonly ApiAsk[], tally: Tally): Promise<void> {
  const story = await ApiStory.begin(ground, tally);
  for (const ask of asks) {
    await story.send(ask).catch((error: unknown) => {
      throw new Error(`${ask.route}: ${error instanceof Error ? error.message : error}`, { cause: error });
    });
  }
  await story.end();
}

/** Fields of answers whose values later requests name. */
const LEARNT = ["upload", "session", "export", "import", "lease", "datum", "next", "commit"] as const;

class ApiStory {
  readonly #ground: Ground;
  readonly #repo: string;
  readonly #tally: Tally;
  readonly #files = new Map<string, Buffer>();
  readonly #known = new Map<string, string>();
  #head: string | null | undefined;

  private constructor(ground: Ground, tally: Tally) {
    this.#ground = ground;
    this.#repo = ground.nextName();
    this.#tally = tally;
    this.#known.set("repo", this.#repo).set("pipeline", `p${this.#repo}`);
  }

  static async begin(ground: Ground, tally: Tally): Promise<ApiStory> {
    const story = new ApiStory(ground, tally);
    await story.#lay();
    return story;
  }

  async #lay(): Promise<void> {
    const { s3, control } = this.#ground;
    const bucket = `master.${this.#repo}`;
    await s3.createBucket(bucket);
    for (const key of KEYS.slice(0, 4)) {
      const bytes = Buffer.from(`of ${key}`.repeat(key === "a" ? 1000 : 1));
      const { version } = await s3.put(bucket, key, bytes);
      this.#files.set(key, bytes);
      this.#known.set("commit", version);
    }
    const path = `/repos/${this.#repo}/branches`;
    await control.ask("PUT", `${path}/master/tags/v1`, {});
    await control.ask("POST", path, { name: "dev", from: { repo: this.#repo, branch: "master" } });
    const { session } = await control.call("POST", `${path}/master/sessions`, { answers: SessionOpened });
    const upload = await control.openUpload(this.#repo);
    await control.addContent(upload, ONE.bytes, ONE);
    this.#known.set("session", session).set("upload", upload);
    const { body: begun } = BODIES["POST /repos/:repo/branches/:branch/imports"];
    this.#learn(JSON.parse((await control.ask("POST", `${path}/new/imports`, begun)).text));
    this.#learn(JSON.parse((await control.ask("POST", `${path}/master/exports`)).text));
    const { pipeline = "" } = Object.fromEntries(this.#known);
    await control.createPipeline({
      pipeline: { name: pipeline },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: this.#repo }, glob: "/*" }],
    });
    await control.ask("POST", "/runner/heartbeat", { node: "n1", executor: "process", capacity: 4 });
    const leased = await control.ask("POST", "/runner/lease", {
      pipeline,
      node: "n1",
      worker: "w1",
      max: 2,
      wait: "none",
    });
    this.#learn(JSON.parse(leased.text));
    const jobs = await control.ask("GET", `/jobs?pipeline=${pipeline}`);
    this.#learn(JSON.parse(jobs.text));
    this.#head = await headOf(this.#ground, this.#repo);
  }

  async send(ask: ApiAsk): Promise<void> {
    const [method = "GET", path = "/"] = ask.route.split(" ");
    const inPath = path.replace(/:(\w+)/g, (_, name: string) =>
      encodePath(this.#told(ask.params[name] ?? "")).replaceAll("/", "%2F"),
    );
    const query = ask.query.map(([name, value]) => `${encode(name)}=${encode(this.#told(value))}`);
    const target = `/api/v1${inPath}${query.length === 0 ? "" : `?${query.join("&")}`}`;
    const body = Buffer.from(this.#bodyOf(ask));
    const answer = await this.#exchange(ask, { method, target, body });
    this.#tally.add(ask.route, answer?.status ?? "none");
    if (answer === undefined) throw new Error("the connection ended without an answer");
    const fault = faultOf(answer, { method, api: true });
    if (fault !== undefined) throw new Error(fault);
    if (method === "GET") return this.#learnFrom(ask, answer);
    const head = await headOf(this.#ground, this.#repo);
    if (answer.status >= 400 && head !== this.#head)
      throw new Error(`it was refused, and HEAD went from ${this.#head} to ${head}`);
    this.#head = head;
    if (answer.status >= 400) return;
    this.#learnFrom(ask, answer);
    await this.#take(ask, body);
  }

  async end(): Promise<void> {
    const head = await headOf(this.#ground, this.#repo);
    if (head !== undefined) {
      if (head !== this.#head) throw new Error("HEAD moved by itself");
      await mustHave(this.#ground, this.#repo, this.#files);
      await mustBeSound(this.#ground, this.#repo);
    }
    await this.#leave();
  }

  #exchange(
    ask: ApiAsk,
    { method, target, body }: { method: string; target: string; body: Buffer },
  ): Promise<RawAnswer | undefined> {
    const { door, reader } = this.#ground;
    const more: [string, string][] = ask.wire === undefined ? [] : [["x-sluice-wire", ask.wire]];
    const request = { method, target, body, headers: more, transfer: "length" as const };
    if (ask.auth === "none") return exchangeRaw(door.endpoint, request);
    const key =
      ask.auth === "reader" ? reader : ask.auth === "root" ? door : { ...door, secretAccessKey: "other" };
    const { host } = new URL(door.endpoint);
    const { headers } = signed(key, { method, target, host, headers: [], payload: sha256(body) }, new Date());
    return exchangeRaw(door.endpoint, { ...request, headers: [...more, ...headers] });
  }

  #told(text: string): string {
    return text.replace(
      /\{(\w+)\}/g,
      (whole, word: string) =>
        this.#known.get(word) ??
        (word === "key" ? "SLUICE00000000000000" : whole === "{}" ? whole : "01BX5ZZKBKACTAV9WEVGEMMVRZ"),
    );
  }

  /** A lease waits for work for 20 s, unless it says that it does not. */
  #bodyOf({ route, body = "" }: ApiAsk): string {
    const told = this.#told(body);
    if (route !== "POST /runner/lease") return told;
    const value = parsed(told);
    return typeof value === "object" && value !== null ? JSON.stringify({ ...value, wait: "none" }) : told;
  }

  #learnFrom({ route }: ApiAsk, { body }: RawAnswer): void {
    const commit = this.#known.get("commit");
    this.#learn(parsed(body.toString()));
    // Those of others are of other branches.
    if (commit !== undefined && !route.includes("/repos/:repo/branches/:branch"))
      this.#known.set("commit", commit);
  }

  #learn(value: unknown, within = ""): void {
    if (typeof value !== "object" || value === null) return;
    for (const [name, held] of Object.entries(value)) {
      const listed = within === "jobs" ? "job" : within === "datums" ? "datum" : undefined;
      const word = name === "id" ? listed : LEARNT.find((each) => each === name);
      // That of an import takes its contents alone.
      const isOther = word === "upload" && "import" in value;
      if (typeof held === "string" && word !== undefined && !isOther) this.#known.set(word, held);
      this.#learn(held, Array.isArray(value) ? within : name);
    }
    if ("secret" in value && "id" in value) this.#known.set("key", String(value.id));
  }

  /** What was accepted may have touched what it names. */
  async #take({ route, params }: ApiAsk, body: Buffer): Promise<void> {
    if (this.#head === undefined || this.#told(params.branch ?? "") !== "master") return;
    const value = parsed(body.toString());
    if (route.endsWith("/commits")) return await this.#takeCommit(value);
    if (route.endsWith("/erasures")) return await this.#adopt([String(Reflect.get(Object(value), "path"))]);
    if (route.endsWith("/revert") || route.endsWith("/finish"))
      await this.#adopt([
        ...KEYS,
        ...this.#files.keys(),
        ...(await this.#ground.s3.keys(`master.${this.#repo}`)),
      ]);
  }

  async #takeCommit(value: unknown): Promise<void> {
    const { session, operations } = Operations.parse(value);
    if (session !== undefined) return;
    const last = new Map(operations.map((operation) => [operation.put ?? operation.delete ?? "", operation]));
    await this.#adopt([...last.keys()]);
    for (const [path, { put, size }] of last) {
      if (put === undefined || path.endsWith("/")) continue;
      const bytes = this.#files.get(path);
      if (bytes === undefined || bytes.length !== size)
        throw new Error(`'${path}' was put with ${size} bytes, and has ${bytes?.length}`);
    }
  }

  async #adopt(keys: readonly string[]): Promise<void> {
    for (const key of new Set(keys)) {
      const bytes = key === "" ? undefined : await this.#ground.s3.get(`master.${this.#repo}`, key);
      if (bytes && !key.endsWith("/")) this.#files.set(key, bytes);
      else this.#files.delete(key);
    }
  }

  async #leave(): Promise<void> {
    const { control } = this.#ground;
    for (const name of await control.pipelineNames())
      await control.ask("DELETE", `/pipelines/${name}?force=true`);
    const { repos } = await control.call("GET", "/repos", {
      answers: z.object({ repos: z.array(z.object({ name: z.string() })) }),
    });
    for (const { name } of repos) await leave(this.#ground, name);
  }
}

const Operations = z.object({
  session: z.string().optional(),
  operations: z.array(
    z.object({ put: z.string().optional(), delete: z.string().optional(), size: z.number().optional() }),
  ),
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
