import { z } from "zod";
import type { InlineContent } from "../../protocol/content.ts";
import { CommitCreated, type CreateCommit, UploadOpened } from "../../protocol/files.ts";
import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { type Job, JobPage } from "../../protocol/pipelines.ts";
import { Client, type Request } from "../../runner/client.ts";
import { Gateway } from "../../runner/gateway.ts";
import type { Door } from "../../test/support/keys.ts";

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

  /** Writes one small file through S3; answers the commit that it made. */
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

  async createPipeline(spec: unknown): Promise<void> {
    await this.#post(z.unknown(), { path: "/pipelines", body: spec });
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
