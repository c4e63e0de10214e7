import type { Command } from "commander";
import { headCommit, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { waitDownstream } from "../../gateway/jobs/downstream.ts";
import { exitCodeOfJobs } from "../../gateway/jobs/job-wait.ts";
import { withClient } from "../../gateway/with-client.ts";
import { atEnd } from "../../local/stop-requests.ts";
import { type ClientOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { liveText } from "../../output/live-line.ts";
import { printJson, printLine, printNote, printTable, shortener } from "../../output/output.ts";
import { progressText, showDatums } from "../job/show.ts";
import { MAX_TIMEOUT_SECONDS } from "../job/wait.ts";

interface Options extends ClientOptions {
  /** Seconds. */
  readonly timeout?: number;
}

/** `sluice commit wait` */
export function addCommitWait(group: Command): void {
  const command = group
    .command("wait")
    .description(
      "Waits until every job downstream of a commit has ended, and lists them: the jobs that read it, those that read what these made, and so on. A pipeline that makes no job of it, as it is stopped or waits for another input, is named on stderr. Ctrl-C ends the waiting alone.\n\nThe exit code is 0 if all succeeded, 3 if one failed, 5 if one was stopped, 6 if time is up, 7 if there is no such commit, 8 if the gateway can't be reached.",
    )
    .argument("<bucket[@commit]>", "<branch>.<repo>: its newest commit, or the one of this id or tag")
    .option(
      "--timeout <seconds>",
      "wait no longer than this (default: until it has ended)",
      wholeNumber({ min: 1, max: MAX_TIMEOUT_SECONDS }),
    )
    .action((text: string, options: Options) => {
      const address = parseCommitAddress(text);
      return withClient(options, async (client) => {
        const commit = address.commit
          ? await commitId(client, address, address.commit)
          : await headCommit(client, address);
        const live = liveText(options);
        const watched = !options.json && process.stderr.isTTY;
        const again = `sluice commit wait ${address.bucket}@${commit}`;
        const forget = watched
          ? atEnd(() => printNote(`the jobs go on: '${again}' waits for them again`))
          : undefined;
        const jobs = await waitDownstream(client, {
          ...{ bucket: address.bucket, commit, timeoutSeconds: options.timeout },
          onJobs: watched
            ? (known) => live.show(known.map((job) => `${job.pipeline} ${job.id} ${progressText(job)}`))
            : undefined,
          onSkipped: (pipeline, why) => printNote(`${pipeline} makes no job of it: ${why}`),
          lost: () => printNote(`the gateway ${client.connection.endpoint} is away; trying again`),
        }).finally(() => {
          forget?.();
          live.clear();
        });
        if (options.json) printJson({ commit, jobs });
        else if (jobs.length === 0) printLine("no job: nothing reads it");
        else {
          const short = shortener(jobs.map(({ id }) => id));
          const rows = jobs.map((job) => [
            short(job.id),
            job.pipeline,
            job.state,
            showDatums(job),
            job.reason ?? "",
          ]);
          printTable([["ID", "PIPELINE", "STATE", "DATUMS", "REASON"], ...rows]);
        }
        process.exitCode = exitCodeOfJobs(jobs);
      });
    });
  withClientOptions(
    command,
    "sluice commit wait master.images",
    "sluice commit wait master.images@01KAR… --timeout 600",
    'sluice commit wait "master.images@$(sluice commit finish $open)"',
  );
}
