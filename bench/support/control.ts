import { setTimeout } from "node:timers/promises";
import { z } from "zod";
import type { InlineContent } from "../../protocol/content.ts";
import {
  CommitCreated,
  type CreateCommit,
  SessionEnd,
  SessionOpened,
  UploadOpened,
} from "../../protocol/files.ts";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { type Job, JobPage } from "../../protocol/pipelines.ts";
import { BranchDetail, RepoUsage } from "../../protocol/repos.ts";
import { Client, type Request } from "../../runner/gateway/client.ts";
import { Gateway } from "../../runner/gateway/gateway.ts";
import type { Door } from "../../test/support/keys.ts";

const GIVE_UP_MS = 20 * 60 * 1000;
/** Between two looks at a branch that is being made. */
const FORK_LOOK_MS = 20;

/** What the rows and their fixtures ask of the control API; whatever is not a success is an error. */
export class Control {
  /** The calls that runners make. */
  readonly runner: Gateway;
  readonly #client: Client;
  readonly #never = new AbortController().signal;

  constructor(door: Door) {
    this.#client = new Client(door);
    this.runner = new Gateway(this.#client);
  }

  /** Never fires: for the calls of `runner`. */
  get signal(): AbortSignal {
    return this.#never;
  }

  async createBranch(address: BranchAddress): Promise<void> {
    const response = await this.#send({ method: "PUT", path: `/${bucketName(address)}` });
    await response.body.dump();
  }

  /** Makes a branch from a commit of another one, and waits until it can be read. */
  async fork(
    address: BranchAddress,
    { from, commit }: { from: BranchAddress; commit: string },
  ): Promise<void> {
    const source = { repo: from.repo, branch: from.branch, commit };
    const path = `/repos/${address.repo}/branches`;
    const made = await this.#post(BranchDetail, { path, body: { name: address.branch, from: source } });
    const giveUpAt = performance.now() + GIVE_UP_MS;
    for (let { forking } = made; forking; ) {
      if (performance.now() > giveUpAt) throw new Error(`${bucketName(address)} was not made in time`);
      await setTimeout(FORK_LOOK_MS);
      const call = { method: "GET", path: `/api/v1${path}/${address.branch}`, signal: this.#never } as const;
      ({ forking } = await this.#client.call(BranchDetail, call));
    }
  }

  /** Writes one small file through S3. Returns the commit that it made. */
  async putFile(address: BranchAddress, { path, bytes }: { path: string; bytes: string }): Promise<string> {
    const target = `/${bucketName(address)}/${path}`;
    const response = await this.#send({ method: "PUT", path: target, body: bytes });
    await response.body.dump();
    const commit = response.headers["x-amz-version-id"];
    if (typeof commit !== "string") throw new Error(`PUT ${target} named no version`);
    return commit;
  }

  async openUpload(address: BranchAddress): Promise<string> {
    return (await this.#post(UploadOpened, { path: "/uploads", body: address })).upload;
  }

  async addContents(upload: string, contents: readonly InlineContent[]): Promise<void> {
    await this.#post(z.unknown(), { path: `/uploads/${upload}/contents`, body: { contents } });
  }

  async commit({ repo, branch }: BranchAddress, body: CreateCommit): Promise<string> {
    const path = `/repos/${repo}/branches/${branch}/commits`;
    const { commit } = await this.#post(CommitCreated, { path, body });
    if (commit === null) throw new Error(`a commit on ${branch}.${repo} changed nothing`);
    return commit;
  }

  /** Opens a commit that is filled by many calls. Returns its id. */
  async openSession({ repo, branch }: BranchAddress): Promise<string> {
    const path = `/repos/${repo}/branches/${branch}/sessions`;
    return (await this.#post(SessionOpened, { path, body: {} })).session;
  }

  /** Adds operations to an open commit. */
  async stage({ repo, branch }: BranchAddress, body: CreateCommit & { session: string }): Promise<void> {
    await this.#post(CommitCreated, { path: `/repos/${repo}/branches/${branch}/commits`, body });
  }

  /** Publishes an open commit. */
  async finishSession({ repo, branch }: BranchAddress, session: string): Promise<void> {
    const path = `/repos/${repo}/branches/${branch}/sessions/${session}/finish`;
    const giveUpAt = performance.now() + GIVE_UP_MS;
    for (let state = "applying"; state !== "finished"; ) {
      if (performance.now() > giveUpAt) throw new Error(`the session ${session} was not published in time`);
      ({ state } = await this.#post(SessionEnd, { path, body: {} }));
    }
  }

  /** So many of the newest commits stay. */
  async keep({ repo, branch }: BranchAddress, commits: number): Promise<void> {
    await this.#client.call(z.unknown(), {
      method: "PUT",
      path: `/api/v1/repos/${repo}/branches/${branch}/keep`,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ keep: { commits } }),
      signal: this.#never,
    });
  }

  /** How many rows of files a branch has, also those that are to be given back. */
  async rows({ repo, branch }: BranchAddress): Promise<number> {
    const { branches } = await this.#client.call(RepoUsage, {
      method: "GET",
      path: `/api/v1/repos/${repo}/usage`,
      signal: this.#never,
    });
    const found = branches.find(({ name }) => name === branch);
    if (!found?.contents) throw new Error(`the gateway tells no usage of ${bucketName({ repo, branch })}`);
    const { live, history, reclaimable } = found.contents;
    return live.count + history.count + reclaimable.count;
  }

  async createPipeline(spec: unknown): Promise<void> {
    await this.#post(z.unknown(), { path: "/pipelines", body: spec });
  }

  /** Asks for something below `/api/v1` and drops the answer. */
  async get(path: string): Promise<void> {
    const { pathname, searchParams } = new URL(path, "http://gateway");
    const query = Object.fromEntries(searchParams);
    const response = await this.#send({ method: "GET", path: `/api/v1${pathname}`, query });
    await response.body.dump();
  }

  async newestJob(pipeline: string): Promise<Job | undefined> {
    const { jobs } = await this.#client.call(JobPage, {
      method: "GET",
      path: "/api/v1/jobs",
      query: { pipeline, limit: "1" },
      signal: this.#never,
    });
    return jobs[0];
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  #post<Schema extends z.ZodType>(
    answer: Schema,
    { path, body }: { path: string; body: unknown },
  ): Promise<z.infer<Schema>> {
    return this.#client.call(answer, {
      method: "POST",
      path: `/api/v1${path}`,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: this.#never,
    });
  }

  #send(request: Omit<Request, "signal">) {
    return this.#client.send({ ...request, signal: this.#never });
  }
}
