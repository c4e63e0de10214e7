import type { Command } from "commander";
import { Job } from "../../../protocol/pipelines.ts";
import { type Client, encodePath, withClient } from "../../gateway/client.ts";
import { type ClientOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson } from "../../output/output.ts";
import { printJob } from "./show.ts";

interface Options extends ClientOptions {
  /** Seconds. */
  readonly timeout?: number;
}

const MAX_TIMEOUT_SECONDS = 7 * 24 * 3600;
/** The longest that one request waits for. */
const WAIT_SECONDS = 20;

/** `sluice job wait` */
export function addJobWait(group: Command): void {
  const command = group
    .command("wait")
    .description(
      "Waits until a job has ended and shows it. Exit code 0 when it succeeded, 1 when it failed, was stopped or time is up.",
    )
    .argument("<id>", "the job")
    .option(
      "--timeout <seconds>",
      "wait no longer than this",
      wholeNumber({ min: 1, max: MAX_TIMEOUT_SECONDS }),
    )
    .action((id: string, options: Options) =>
      withClient(options, async (client) => {
        const job = await waitForEnd(client, { id, timeoutSeconds: options.timeout });
        if (options.json) printJson(job);
        else printJob(job);
        if (job.state !== "success") process.exitCode = 1;
      }),
    );
  withClientOptions(
    command,
    "sluice job wait 01KAR…",
    "sluice job wait 01KAR… --timeout 600 && sluice ls s3://master.edges",
  );
}

async function waitForEnd(
  client: Client,
  { id, timeoutSeconds }: { id: string; timeoutSeconds: number | undefined },
): Promise<Job> {
  const deadline =
    timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : Date.now() + timeoutSeconds * 1000;
  for (;;) {
    const seconds = Math.min(WAIT_SECONDS, Math.max(0, (deadline - Date.now()) / 1000));
    // The gateway answers when the job has ended, or when this time is over.
    const job = await client.call(Job, {
      method: "GET",
      path: `/jobs/${encodePath(id)}`,
      query: { wait: String(seconds) },
    });
    if (job.finishedAt !== null) return job;
    if (Date.now() >= deadline) {
      const why = job.reason ? `: ${job.reason}` : "";
      throw new CliError(`job ${id} is still ${job.state} after ${timeoutSeconds} s${why}`, {
        code: "Timeout",
      });
    }
  }
}
