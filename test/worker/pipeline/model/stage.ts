import { env, runDurableObjectAlarm } from "cloudflare:test";
import type { Job } from "../../../../protocol/pipelines.ts";
import type { PipelineSpec } from "../../../../protocol/spec.ts";
import { killed, killPipeline, survived } from "../kill.ts";
import { allJobs, pipelineOf, query, specOf } from "../support.ts";
import type { Position } from "./naive-branch.ts";
import type { NaiveSpec } from "./naive-pipeline.ts";
import { TRIES } from "./naive-results.ts";

interface PipelineRow {
  readonly state: string;
  readonly revision: number;
  readonly wished: number;
  readonly hadFirstJob: number;
  readonly wholeJobDue: number;
}

/** The real pipeline, as a caller sees it whose calls may die with the object: what is asked is asked until it is done. */
export class Stage {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  async create(spec: NaiveSpec): Promise<void> {
    const made = await survived(async () => pipelineOf(this.name).lifecycle.create(this.#spec(spec)));
    // Killed before it answered, it may be there.
    if (!made.ok && made.reason !== "already-exists") throw new Error(made.reason);
  }

  async stop(): Promise<void> {
    while (!(await survived(async () => pipelineOf(this.name).lifecycle.stop())).ok);
  }

  async start(): Promise<void> {
    while (!(await survived(async () => pipelineOf(this.name).lifecycle.start())).ok);
  }

  async update(spec: NaiveSpec, { reprocess }: { reprocess: boolean }): Promise<void> {
    const before = await this.row();
    for (;;) {
      try {
        if ((await pipelineOf(this.name).specification.update({ spec: this.#spec(spec), reprocess })).ok)
          return;
      } catch (error) {
        if (!killed(error)) throw error;
      }
      // A client that got no answer looks whether it was written down; then it goes on by itself.
      const now = await this.row();
      if (now.revision > before.revision || now.wished) break;
    }
    for (;;) {
      const { state, wished } = await this.row();
      if (!wished && (state === "active" || state === "stopped")) return;
      await this.nudge();
    }
  }

  async stopJob(id: string): Promise<boolean> {
    return (await survived(async () => pipelineOf(this.name).jobs.stop(id))).ok;
  }

  async jobs(): Promise<Job[]> {
    return await survived(async () => allJobs(pipelineOf(this.name)));
  }

  async row(): Promise<PipelineRow> {
    const [row] = await this.rows<PipelineRow>(
      "SELECT state, revision, nextRevision IS NOT NULL AS wished, hadFirstJob, wholeJobDue FROM pipeline",
    );
    if (!row) throw new Error(`there is no pipeline ${this.name}`);
    return row;
  }

  /** Whether what jobs that have ended leave behind is done with. */
  async rests(): Promise<boolean> {
    return (await this.rows("SELECT 1 FROM jobs WHERE filled = 0 OR reaping = 1 LIMIT 1")).length === 0;
  }

  /** How far each branch was read. */
  async positions(): Promise<Map<string, Position>> {
    const rows = await this.rows<Position & { repo: string }>("SELECT repo, generation, seq FROM sources");
    return new Map(rows.map(({ repo, generation, seq }) => [repo, { generation, seq }]));
  }

  /** How far each branch was read for the newest job that no commit made. */
  async positionsOfNewest(repos: readonly string[]): Promise<Map<string, Position>> {
    const [row] = await this.rows<{ positions: string }>(
      "SELECT positions FROM jobs WHERE source = -1 ORDER BY n DESC LIMIT 1",
    );
    const positions: Position[] = JSON.parse(row?.positions ?? "[]");
    return new Map(positions.map(({ generation, seq }, index) => [repos[index] ?? "", { generation, seq }]));
  }

  async rows<Row>(sql: string): Promise<Row[]> {
    return await survived(async () => query<Row>(this.name, sql));
  }

  /** For people: how it stands. */
  async describe(): Promise<string> {
    const of = (table: string): Promise<unknown[]> =>
      this.rows(`SELECT * FROM ${table} ORDER BY 1 DESC LIMIT 5`);
    const tables = ["pipeline", "sources", "jobs", "ending", "tasks", "egress_pending", "slots"];
    const texts = await Promise.all(
      tables.map(async (table) => `${table}: ${JSON.stringify(await of(table))}`),
    );
    return texts.join("\n");
  }

  async kill(): Promise<void> {
    await killPipeline(this.name);
  }

  /** What the platform does in time: the alarm that stands rings. */
  async nudge(): Promise<void> {
    await survived(async () => runDurableObjectAlarm(env.PIPELINE.getByName(this.name)));
  }

  #spec({ cmd, workers, store, skips, inputs }: NaiveSpec): PipelineSpec {
    return specOf({
      name: this.name,
      workers,
      globs: Object.fromEntries(inputs.map(({ name, glob }) => [name, glob.text])),
      repos: Object.fromEntries(inputs.map(({ name, repo }) => [name, repo])),
      more: {
        transform: { image: "none", cmd: [cmd] },
        datumTries: TRIES,
        ...(store !== null && { egress: { URL: store } }),
        ...(skips && { onDatumFailure: "skip" }),
      },
    });
  }
}
