import { setTimeout as pause } from "node:timers/promises";
import { Option } from "commander";
import { ulidTime } from "../../../protocol/names.ts";
import { type Job, JobPage, ListedState, listedState, Pipeline } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { type Command, withClient } from "../../command.ts";
import { type Client, noteAway, patiently } from "../../gateway/client.ts";
import { parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { moreText, name, type PageOptions, time, wantedOf } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { liveAnswer } from "../../output/live-line.ts";
import {
  printJson,
  printLine,
  printNote,
  printTable,
  shortener,
  showListTime,
  terminalLines,
} from "../../output/output.ts";
import { goodDatums, showVersion } from "./show.ts";

interface Options extends PageOptions {
  readonly pipeline?: string;
  readonly state?: ListedState;
  readonly search?: string;
  /** Milliseconds since 1970. */
  readonly since?: number;
  readonly before?: number;
  readonly commit?: string;
  readonly watch?: true;
}

const SIZES = { byDefault: 20, most: 1000 };
/** Between two looks of --watch. */
const WATCH_MS = 1000;
/** By how much the clocks of two objects may be apart. */
const CLOCKS_MS = 60_000;

export function addJobList(group: Command): void {
  group
    .command("list")
    .description(
      "Lists jobs, newest first. With --watch it goes on until Ctrl-C: on a terminal the list is shown anew as it changes, else each job is printed again when it changes.",
    )
    .option("--pipeline <name>", "only those of this pipeline", name)
    .option(
      "--commit <bucket@commit>",
      "only those that had this commit as an input, <branch>.<repo>@<commit or tag>",
    )
    .addOption(
      new Option(
        "--state <state>",
        "only those in this state; those that wait are in the state waiting alone",
      ).choices(ListedState.options),
    )
    .option("--search <text>", "only those with this text in the pipeline's name or in the reason")
    .option(
      "--since <time>",
      "only those made since: a time such as 2026-01-31T14:00Z, or 3h or 7d for so long ago",
      time,
    )
    .option("--before <time>", "only those made before", time)
    .option("--watch", "go on as they change")
    .action((options: Options) => {
      if (options.watch && options.after !== undefined) {
        throw new UsageError("--watch shows the newest jobs: leave out --after");
      }
      return withClient(options, async (client) => {
        const commit = await commitOf(client, options);
        // A list that is shown anew is one page of it.
        const { all, limit = all ? SIZES.most : SIZES.byDefault } = options;
        if (options.watch) return await watch(client, { options: { ...options, limit }, commit });
        const page = await jobsOf(client, { options, commit });
        if (page.jobs.length === 0) await mustExist(client, options);
        if (options.json) return printJson(page);
        printTable(rowsOf(page.jobs), { below: 1 });
        if (page.next !== null) printNote(moreText(options, page.next));
      });
    })
    .pageOptions(SIZES, { of: "job" })
    .clientOptions(
      "sluice job list --pipeline edges",
      "sluice job list --state failure --limit 5",
      "sluice job list --search 'exit code 4' --since 7d",
      "sluice job list --commit master.images@01KAR…",
      "sluice job list --pipeline edges --watch",
    );
}

/** A pipeline without jobs is there; one that is misspelled has none either. Its jobs outlast a deleted one. */
async function mustExist(client: Client, { pipeline }: Options): Promise<void> {
  if (pipeline === undefined) return;
  await client.get(Pipeline, `/pipelines/${encodePath(pipeline)}`);
}

async function commitOf(client: Client, { commit }: Options): Promise<string | undefined> {
  if (commit === undefined) return undefined;
  const address = parseCommitAddress(commit);
  if (address.commit === undefined) {
    throw new UsageError(`--commit is '${commit}': it must be <branch>.<repo>@<commit or tag>`);
  }
  return await commitId(client, address, address.commit);
}

interface Asked {
  readonly options: Options;
  /** Only jobs that have it in an input. */
  readonly commit: string | undefined;
}

async function jobsOf(client: Client, { options, commit }: Asked): Promise<JobPage> {
  const { pipeline, state, search, since, before } = options;
  const pageOf = (page: { limit: number; after: string | undefined }): Promise<JobPage> =>
    client.get(JobPage, "/jobs", { ...page, pipeline, state, search, since, before });
  const limit = wantedOf(options, SIZES);
  let { after } = options;
  let size = commit === undefined ? Math.min(limit, SIZES.most) : SIZES.most;
  const jobs: Job[] = [];
  for (;;) {
    const page = await pageOf({ limit: size, after });
    jobs.push(...page.jobs.filter(({ inputs }) => isOf(commit, inputs)));
    const last = page.jobs.at(-1);
    if (jobs.length > limit) {
      const shown = jobs.slice(0, limit);
      return { jobs: shown, next: shown.at(-1)?.id ?? null };
    }
    if (commit === undefined && jobs.length === limit) return { jobs, next: page.next };
    // No job is older than what it reads.
    const isOver =
      commit !== undefined && last !== undefined && last.createdAt < ulidTime(commit) - CLOCKS_MS;
    if (page.next === null || isOver) return { jobs, next: null };
    after = page.next;
    // Most of a state may wait, which the gateway passes over page by page: what is behind them is found with few requests.
    size = SIZES.most;
  }
}

/** Whether a job had a commit as an input; undefined: every job will do. */
function isOf(commit: string | undefined, inputs: Job["inputs"]): boolean {
  return commit === undefined || inputs.some((input) => input.commit === commit);
}

async function watch(client: Client, asked: Asked): Promise<void> {
  const { options } = asked;
  const live = liveAnswer();
  const known = new Map<string, string>();
  const lost = () => noteAway(client);
  for (;;) {
    const { jobs } = await patiently(() => jobsOf(client, asked), { lost });
    if (!options.json && process.stdout.isTTY)
      live.show(terminalLines(rowsOf(jobs), { below: 1, colours: false }));
    else {
      for (const job of jobs.toReversed()) {
        const shown = JSON.stringify([listedState(job), job.reason, job.datums]);
        if (known.get(job.id) === shown) continue;
        known.set(job.id, shown);
        if (options.json) printJson(job);
        else printLine(rowOf(job).join("  "));
      }
    }
    await pause(WATCH_MS);
  }
}

function rowsOf(jobs: readonly Job[]): string[][] {
  const short = shortener(jobs.map(({ id }) => id));
  const rows = jobs.map((job) => [short(job.id), ...rowOf(job).slice(1)]);
  // On a terminal each column counts.
  const version = process.stdout.isTTY ? "VER" : "VERSION";
  return [["ID", "PIPELINE", version, "STATE", "DATUMS", "CREATED", "REASON"], ...rows];
}

function rowOf(job: Job): string[] {
  return [
    ...[job.id, job.pipeline, showVersion(job), listedState(job), goodDatums(job)],
    ...[showListTime(job.createdAt), job.reason ?? ""],
  ];
}
