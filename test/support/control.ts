import { z } from "zod";
import type { ContentId } from "../../protocol/content.ts";
import { CommitCreated, UploadOpened } from "../../protocol/files.ts";
import { Job, JobPage, Pipeline, PipelineList } from "../../protocol/pipelines.ts";
import { eventually } from "./eventually.ts";
import { type Answer, signedExchange } from "./http.ts";
import type { Door } from "./keys.ts";

/** A bare client of the control API for tests. Every answer is held to its schema in `protocol`. */
export class Control {
  readonly #door: Door;

  constructor(door: Door) {
    this.#door = door;
  }

  /** One request to `/api/v1<path>`, whatever its answer. */
  async ask(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    return signedExchange(this.#door, { method, target: `/api/v1${path}`, headers, ...content }, signal);
  }

  /** One request that must succeed. */
  async call<T>(method: string, path: string, { body, answers, signal }: Call<T>): Promise<T> {
    const answer = await this.ask(method, path, body, signal);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answers.parse(answer.text === "" ? undefined : JSON.parse(answer.text));
  }

  createPipeline(spec: unknown): Promise<Pipeline> {
    return this.call("POST", "/pipelines", { body: spec, answers: Pipeline });
  }

  async pipelineNames(): Promise<string[]> {
    const { pipelines } = await this.call("GET", "/pipelines", { answers: PipelineList });
    return pipelines.map(({ name }) => name);
  }

  async deletePipeline(name: string): Promise<void> {
    await this.call("DELETE", `/pipelines/${name}`, { answers: z.unknown() });
  }

  job(id: string): Promise<Job> {
    return this.call("GET", `/jobs/${id}`, { answers: Job });
  }

  /** Every job of a pipeline, oldest first, page by page. */
  async jobs(pipeline: string): Promise<Job[]> {
    const newestFirst: Job[] = [];
    let after: string | null = "";
    while (after !== null) {
      const page: JobPage = await this.#jobPage(pipeline, { limit: 100, after });
      newestFirst.push(...page.jobs);
      after = page.next;
    }
    return newestFirst.reverse();
  }

  /** The jobs of a pipeline, oldest first, once there are `count` and all have ended. */
  ended(pipeline: string, { count, withinMs }: { count: number; withinMs?: number }): Promise<Job[]> {
    return eventually(
      `${count} jobs of ${pipeline} had ended`,
      async () => {
        // Jobs end in order: while the newest runs, the others need not be asked for.
        const newest = (await this.#jobPage(pipeline, { limit: 1, after: "" })).jobs[0];
        if (newest?.finishedAt === null) throw new Error(`the newest job is ${JSON.stringify(newest)}`);
        const jobs = await this.jobs(pipeline);
        const running = jobs.filter(({ finishedAt }) => finishedAt === null).length;
        if (jobs.length !== count || running > 0)
          throw new Error(`${jobs.length} jobs, ${running} not ended`);
        return jobs;
      },
      withinMs === undefined ? {} : { withinMs },
    );
  }

  #jobPage(pipeline: string, { limit, after }: { limit: number; after: string }): Promise<JobPage> {
    const from = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
    return this.call("GET", `/jobs?pipeline=${pipeline}&limit=${limit}${from}`, { answers: JobPage });
  }

  /** Opens an upload into a branch. */
  async openUpload(repo: string, branch = "master"): Promise<string> {
    const body = { repo, branch };
    const { upload } = await this.call("POST", "/uploads", { body, answers: UploadOpened });
    return upload;
  }

  /** Uploads one content of any size. */
  async addContent(upload: string, bytes: Uint8Array, { digest, size }: ContentId): Promise<void> {
    const target = `/api/v1/uploads/${upload}/contents?digest=${digest}&size=${size}`;
    const answer = await signedExchange(this.#door, { method: "PUT", target, body: bytes });
    if (answer.status >= 300) throw new Error(`PUT ${target}: ${answer.status} ${answer.text}`);
  }

  /** Uploads many small contents in one call; `bytes` is base64. */
  async addInlineContents(
    upload: string,
    contents: readonly (ContentId & { bytes: string })[],
  ): Promise<void> {
    await this.call("POST", `/uploads/${upload}/contents`, { body: { contents }, answers: z.unknown() });
  }

  /** Many operations as one commit on `master`; answers its id. */
  async commit(repo: string, upload: string, operations: readonly unknown[]): Promise<string | null> {
    const path = `/repos/${repo}/branches/master/commits`;
    const { commit } = await this.call("POST", path, {
      body: { upload, operations },
      answers: CommitCreated,
    });
    return commit;
  }
}

interface Call<T> {
  readonly body?: unknown;
  readonly answers: z.ZodType<T>;
  readonly signal?: AbortSignal;
}
