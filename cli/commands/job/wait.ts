import type { Command } from "commander";
import type { Job } from "../../../protocol/pipelines.ts";
import type { Client } from "../../gateway/client.ts";
import { jobNamed, namedJob } from "../../gateway/ids/ids.ts";
import { exitCodeOfJobs, LOOK_SECONDS, waitForEnd } from "../../gateway/jobs/job-wait.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, wholeNumber, withClientOptions } from "../../options.ts";
import { liveText, notesAreRead, timedNotes } from "../../output/live-line.ts";
import { printJson, printNote } from "../../output/output.ts";
import { atEnd } from "../../stop-requests.ts";
import { leftText, printJob, progressText } from "./show.ts";

interface Options extends ClientOptions {
  /** Seconds. */
  readonly timeout?: number;
  readonly pipeline?: string;
}

export const MAX_TIMEOUT_SECONDS = 7 * 24 * 3600;

/** `sluice job wait` */
export function addJobWait(group: Command): void {
  const command = group
    .command("wait")
    .description(
      "Waits until a job has ended and shows it; it says how far the job is, on a terminal as it changes, else on stderr in a line each 10 s. It goes on waiting while the gateway starts anew. Ctrl-C ends the waiting alone, and the job goes on.\n\nThe exit code is 0 if the job succeeded, 3 if it failed, 5 if it was stopped, 6 if time is up, 7 if there is no such job, 8 if the gateway can't be reached.",
    )
    .argument("[id]", "the job, or how its id begins")
    .option("--pipeline <name>", "the newest job of this pipeline", name)
    .option(
      "--timeout <seconds>",
      "wait no longer than this (default: until it has ended)",
      wholeNumber({ min: 1, max: MAX_TIMEOUT_SECONDS }),
    )
    .action((text: string | undefined, options: Options) => {
      const named = namedJob(text, options);
      return withClient(options, async (client) => {
        const id = await jobNamed(client, named);
        const job = await waitWatched(client, { id, options });
        if (options.json) printJson(job);
        else printJob(job);
        process.exitCode = exitCodeOfJobs([job]);
      });
    });
  withClientOptions(
    command,
    "sluice job wait 01KAR…",
    "sluice job wait --pipeline edges",
    "sluice job wait 01KAR… --timeout 600 && sluice ls s3://master.edges",
  );
}

/** Waits, and says how far the job is: on a terminal as it changes, else in a line from time to time. */
async function waitWatched(client: Client, { id, options }: { id: string; options: Options }): Promise<Job> {
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
      lost: () => printNote(`the gateway ${client.connection.endpoint} is away; trying again`),
    });
  } finally {
    notes?.end();
    forget?.();
    live.clear();
  }
}
