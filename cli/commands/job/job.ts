import { Option } from "commander";
import {
  type DatumPage,
  DatumState,
  Job,
  type JobDatum,
  JobRetry,
  KnownWhy,
} from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { Command } from "../../command.ts";
import { type Client, noteAway } from "../../gateway/client.ts";
import { jobId, jobNamed } from "../../gateway/ids/ids.ts";
import { addLastLines, findDatums } from "../../gateway/jobs/datums.ts";
import { exitCodeOfJobs, LOOK_SECONDS, waitForEnd } from "../../gateway/jobs/job-wait.ts";
import { type ClientOptions, type JobOptions, moreText, type PageOptions, wantedOf } from "../../options.ts";
import { liveText, notesAreRead, timedNotes } from "../../output/live-line.ts";
import { printJson, printLine, printNote, printTable, shortener, showSize } from "../../output/output.ts";
import { atEnd } from "../../stop-requests.ts";
import { addJobList } from "./list.ts";
import { addJobLogs } from "./logs.ts";
import { leftText, printJob, progressText } from "./show.ts";

export function addJob(program: Command): void {
  program
    .group("job")
    .summary("list, inspect, wait for, stop, retry jobs; their datums and logs")
    .description("Jobs: each commit on an input of a pipeline makes one.")
    .holds(addJobList, addJobInspect, addJobWait, addJobStop, addJobRetry, addJobDatums, addJobLogs);
}

function addJobInspect(group: Command): void {
  group
    .command("inspect")
    .description("Shows a job: its state and why, its datums, the commits it read and the one it made.")
    .jobArgument()
    .clientAction(async (client, _id: string | undefined, options: JobOptions) => {
      const id = await jobNamed(client, options.job);
      const job = await client.get(Job, `/jobs/${encodePath(id)}`);
      if (options.json) printJson(job);
      else printJob(job);
    })
    .clientOptions(
      "sluice job inspect 01KAR…",
      "sluice job inspect --pipeline edges",
      "sluice job inspect 01KAR… --json | jq .datums",
    );
}

function addJobStop(group: Command): void {
  group
    .command("stop")
    .description(
      "Stops a job: what it runs is ended, nothing is committed. Later jobs go on, and run what they need of it.",
    )
    .argument("<id>", "the job, or how its id begins")
    .clientAction(async (client, text: string, options: ClientOptions) => {
      const id = await jobId(client, text);
      const job = await client.post(Job, `/jobs/${encodePath(id)}/stop`, { repeatable: true });
      if (options.json) printJson(job);
      else printLine(`stopped ${job.id} of ${job.pipeline}`);
    })
    .clientOptions("sluice job stop 01KAR…");
}

interface Options extends ClientOptions {
  readonly failed?: true;
  readonly all?: true;
}

function addJobRetry(group: Command): void {
  group
    .command("retry")
    .description(
      "Makes one new job of the job's pipeline, for what its inputs have now, and prints its id. It tries again what failed or was left undone. It never reads old commits.",
    )
    .argument("<id>", "the job, or how its id begins")
    .option("--failed", "run only what failed; this is the default")
    .addOption(new Option("--all", "run every datum again").conflicts("failed"))
    .clientAction(async (client, text: string, options: Options) => {
      const id = await jobId(client, text);
      // Asked twice, since an answer was lost, the gateway answers with the job that it made.
      const retried = await client.post(JobRetry, `/jobs/${encodePath(id)}/retry`, {
        query: options.all ? { datums: "all" } : {},
        repeatable: true,
      });
      if (options.json) return printJson(retried);
      const { job, newest } = retried;
      printLine(job.id);
      if (newest !== id) {
        printNote(
          `${id} is not the newest job of ${job.pipeline}, which was ${newest}: the new one reads the inputs as they are now, too`,
        );
      }
    })
    .clientOptions(
      "sluice job retry 01KAR…",
      "sluice job retry 01KAR… --all",
      "sluice job wait $(sluice job retry 01KAR…)",
    );
}

interface WaitOptions extends JobOptions {
  /** Seconds. */
  readonly timeout?: number;
}

export function addJobWait(group: Command): void {
  group
    .command("wait")
    .description(
      "Waits until a job has ended and shows it; it says how far the job is, on a terminal as it changes, else on stderr in a line each 10 s. It goes on waiting while the gateway starts anew. Ctrl-C ends the waiting alone, and the job goes on.\n\nThe exit code is 0 if the job succeeded, 3 if it failed, 5 if it was stopped, 6 if time is up, 7 if there is no such job, 8 if the gateway can't be reached.",
    )
    .jobArgument()
    .timeoutOption()
    .clientAction(async (client, _id: string | undefined, options: WaitOptions) => {
      const id = await jobNamed(client, options.job);
      const job = await waitWatched(client, { id, options });
      if (options.json) printJson(job);
      else printJob(job);
      process.exitCode = exitCodeOfJobs([job]);
    })
    .clientOptions(
      "sluice job wait 01KAR…",
      "sluice job wait --pipeline edges",
      "sluice job wait 01KAR… --timeout 600 && sluice ls s3://master.edges",
    );
}

/** Waits, and says how far the job is: on a terminal as it changes, else in a line from time to time. */
async function waitWatched(
  client: Client,
  { id, options }: { id: string; options: WaitOptions },
): Promise<Job> {
  const live = liveText(options);
  const watched = !options.json && process.stderr.isTTY;
  const forget = watched
    ? atEnd(() => printNote(`the job goes on: 'sluice job wait ${id}' waits for it again`))
    : undefined;
  let last: Job | undefined;
  const notes = notesAreRead(options)
    ? timedNotes(() => last && `waiting for job ${id} of ${last.pipeline}: ${leftText(last)}`)
    : undefined;
  const onJob = (job: Job): void => {
    last = job;
    live.show([progressText(job)]);
  };
  try {
    return await waitForEnd(client, {
      ...{ id, timeoutSeconds: options.timeout },
      ...((watched || notes) && { onJob }),
      lookSeconds: notes && LOOK_SECONDS.lines,
      lost: () => noteAway(client),
    });
  } finally {
    notes?.end();
    forget?.();
    live.clear();
  }
}

const SIZES = { byDefault: 100, most: 1000 };

interface DatumsOptions extends PageOptions, JobOptions {
  readonly why?: true;
  readonly state?: JobDatum["state"];
}

export function addJobDatums(group: Command): void {
  group
    .command("datums")
    .description(
      "Lists the datums of a job: first those that it ran or is to run, then those that it skipped. --why says of each what it was run for (new, changed with what from and to, another version of the specification, left undone before), or whose result it has. The reason of one that failed ends in the last line that it printed.",
    )
    .jobArgument()
    .addOption(new Option("--state <state>", "only those in this state").choices(DatumState.options))
    .option("--why", "say why each was run, or was not")
    .clientAction(async (client, _id: string | undefined, options: DatumsOptions) => {
      const job = await jobNamed(client, options.job);
      const limit = wantedOf(options, SIZES);
      const { datums: found, next } = await findDatums(client, { ...options, job, limit });
      await addLastLines(client, { job, datums: found });
      if (options.json) return printJson({ datums: found, next } satisfies DatumPage);
      const why = options.why ? ["WHY"] : [];
      const short = shortener(found.map((datum) => datum.id));
      const rows = found.map((datum) => [
        short(datum.id),
        ...rowOf(datum),
        ...(options.why ? [whyText(datum)] : []),
      ]);
      const heading = ["DATUM", "STATE", "EXIT", "NODE", "INPUTS", "REASON", ...why];
      printTable([heading, ...rows], { below: 1 + why.length });
      if (next !== null) printNote(moreText(options, `'${next}'`));
    })
    .pageOptions(SIZES, { of: "place", place: "place" })
    .clientOptions(
      "sluice job datums 01KAR…",
      "sluice job datums 01KAR… --why",
      "sluice job datums --pipeline edges --state failed",
      "sluice job datums 01KAR… --json | jq -r '.datums[].id'",
    );
}

function rowOf({ state, exitCode, node, inputs, reason }: JobDatum): string[] {
  const paths = inputs.map(({ name, path }) => `${name}:/${path}`).join(" ");
  return [state, exitCode === null ? "-" : String(exitCode), node ?? "-", paths, reason ?? ""];
}

function whyText({ why = [] }: JobDatum): string {
  return why
    .map((reason) => {
      const known = KnownWhy.safeParse(reason);
      return known.success ? reasonText(known.data) : reason.reason;
    })
    .join("; ");
}

function reasonText(why: KnownWhy): string {
  switch (why.reason) {
    case "new":
      return `new: ${why.inputs.map(({ name, path }) => `${name}:/${path}`).join(" ")}`;
    case "changed": {
      const told = why.changes.map(
        ({ input, path, before, after }) => `${input}:/${path} ${showFile(before)} -> ${showFile(after)}`,
      );
      if (why.hidden) told.push("what, is shown to keys that may read all of the inputs");
      else if (why.more) told.push("more");
      return `changed: ${told.join(", ")}`;
    }
    case "version":
      return `version ${why.from} -> ${why.to}: ${why.fields.join(", ")}`;
    case "reprocess":
      return `reprocess, by version ${why.version}`;
    case "again":
      return why.job === null ? "its result is gone" : `${why.state} in job ${why.job}`;
    case "result":
      return `has the result of job ${why.job}`;
    case "not-kept":
      return "not kept any more";
  }
}

/** Enough of a digest to tell two from each other. */
const DIGEST_CHARACTERS = 12;

function showFile(file: { readonly digest: string; readonly size: number } | null): string {
  return file === null ? "nothing" : `${file.digest.slice(0, DIGEST_CHARACTERS)} (${showSize(file.size)})`;
}
