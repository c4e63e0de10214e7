import { FateState, type Job, listedState } from "../../../protocol/pipelines.ts";
import type { Command } from "../../command.ts";
import { noteAway } from "../../gateway/client.ts";
import { type CommitAddress, headCommit, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { type CameOf, unseenText, waitDownstream } from "../../gateway/jobs/downstream.ts";
import { exitCodeOfJobs, LOOK_SECONDS } from "../../gateway/jobs/job-wait.ts";
import type { ClientOptions } from "../../options.ts";
import { EXIT } from "../../output/failure.ts";
import { liveText, notesAreRead, timedNotes } from "../../output/live-line.ts";
import { count, printJson, printLine, printNote, printTable, shortener } from "../../output/output.ts";
import { atEnd } from "../../stop-requests.ts";
import { leftText, progressText, showDatums } from "../job/show.ts";

interface Options extends ClientOptions {
  /** Seconds. */
  readonly timeout?: number;
}

export function addCommitWait(group: Command): void {
  group
    .command("wait")
    .description(
      "Waits until every job downstream of a commit has ended, and lists them; while it waits it says on stderr what is left, into a pipe in a line each 10 s. They are the jobs that read it, those that read what these made, and so on. A pipeline that makes no job of it, as it is stopped or waits for another input, is named on stderr. Of pipelines whose repo the key may not read, it tells how many there are and how they ended; it names those that read nothing else than the key may read. Ctrl-C ends the waiting alone.\n\nThe exit code is 0 if all succeeded, 3 if one failed, 5 if one was stopped, 6 if time is up, 7 if there is no such commit, 8 if the gateway can't be reached.",
    )
    .argument(
      "<bucket[@commit]>",
      "<branch>.<repo>: its newest commit, or the one of this id or tag",
      parseCommitAddress,
    )
    .timeoutOption()
    .clientAction(async (client, address: CommitAddress, options: Options) => {
      const commit = address.commit
        ? await commitId(client, address, address.commit)
        : await headCommit(client, address);
      const live = liveText(options);
      const watched = !options.json && process.stderr.isTTY;
      const again = `sluice commit wait ${address.bucket}@${commit}`;
      const forget = watched
        ? atEnd(() => printNote(`the jobs go on: '${again}' waits for them again`))
        : undefined;
      const shown: { jobs: readonly Job[]; unseen: number } = { jobs: [], unseen: 0 };
      const show = (more: Partial<typeof shown>): void => {
        Object.assign(shown, more);
        const lines = shown.jobs.map((job) => `${job.pipeline} ${job.id} ${progressText(job)}`);
        live.show(shown.unseen > 0 ? [...lines, `${unseenText(shown.unseen)}: running`] : lines);
      };
      const notes = notesAreRead(options) ? timedNotes(() => openText(shown)) : undefined;
      const looksOn = watched || notes !== undefined;
      const came = await waitDownstream(client, {
        ...{ ...address, commit, timeoutSeconds: options.timeout },
        ...(looksOn && { onJobs: (jobs) => show({ jobs }), onUnseen: (unseen) => show({ unseen }) }),
        lookSeconds: notes && LOOK_SECONDS.lines,
        onSkipped: (pipeline, why) => printNote(`${pipeline} makes no job of it: ${why}`),
        lost: () => noteAway(client),
      }).finally(() => {
        notes?.end();
        forget?.();
        live.clear();
      });
      noteUnseen(came);
      if (options.json) printJson({ commit, jobs: came.jobs, named: came.named, unseen: came.unseen });
      else printCame(came);
      process.exitCode = exitCodeOf(came);
    })
    .clientOptions(
      "sluice commit wait master.images",
      "sluice commit wait master.images@01KAR… --timeout 600",
      'sluice commit wait "master.images@$(sluice commit finish $open)"',
    );
}

/** Most jobs that one line names. */
const MOST_NAMED = 3;

/** What is left of it, on one line. */
function openText({ jobs, unseen }: { readonly jobs: readonly Job[]; readonly unseen: number }): string {
  const open = jobs.filter(({ finishedAt }) => finishedAt === null);
  const named = open.slice(0, MOST_NAMED).map((job) => `job ${job.id} of ${job.pipeline}: ${leftText(job)}`);
  const parts = [
    ...named,
    ...(open.length > MOST_NAMED ? [`${open.length - MOST_NAMED} more`] : []),
    ...(unseen > 0 ? [unseenText(unseen)] : []),
  ];
  if (parts.length === 0) return "waiting for the next job of it";
  const ended = jobs.length - open.length;
  return `waiting for ${parts.join("; ")}${ended > 0 ? `; ${count(ended, "job")} ended` : ""}`;
}

/** Says what the exit code does not tell of pipelines that the key may not see. */
function noteUnseen({ unseen: { none, unknown }, isWhole }: CameOf): void {
  if (none > 0) printNote(`${unseenText(none)} ${none === 1 ? "makes" : "make"} no job of it`);
  if (unknown > 0) printNote(`${unseenText(unknown)}: what became of it is not known any more`);
  if (isWhole) return;
  printNote(
    "more pipelines follow that this key may not see, and the gateway looks at no more of them: wait with a key that may read their repos",
  );
}

function printCame({ jobs, named, unseen }: CameOf): void {
  const short = shortener(jobs.map(({ id }) => id));
  const rows = [
    ...jobs.map((job) => [short(job.id), job.pipeline, listedState(job), showDatums(job), job.reason ?? ""]),
    ...named
      .filter(({ state }) => state in ENDED)
      .map(({ pipeline, state, reason }) => ["-", pipeline, state, "-", reason ?? ""]),
  ];
  const counts = Object.entries(ENDED).map(([state, word]) => ({ count: unseen[state as Ended], word }));
  const ended = counts.filter(({ count }) => count > 0);
  if (rows.length > 0) printTable([["ID", "PIPELINE", "STATE", "DATUMS", "REASON"], ...rows], { below: 1 });
  if (ended.length > 0) {
    const total = ended.reduce((sum, { count }) => sum + count, 0);
    printLine(`${unseenText(total)}: ${ended.map(({ count, word }) => `${count} ${word}`).join(", ")}`);
  }
  if (rows.length > 0 || ended.length > 0) return;
  const isRead = named.length > 0 || Object.values(unseen).some((count) => count > 0);
  printLine(isRead ? "no job was made of it" : "no job: nothing reads it");
}

type Ended = keyof typeof ENDED;

/** How a job ended, in words. */
const ENDED = { failure: "failed", killed: "stopped", success: "succeeded" } as const;

/** What is not known to have ended well does not end with 0. */
function exitCodeOf({ jobs, named, unseen, isWhole }: CameOf): number {
  const states = FateState.options.filter((state) => unseen[state] > 0).map((state) => ({ state }));
  const code = exitCodeOfJobs([...jobs, ...named, ...states]);
  return code === EXIT.done && !isWhole ? EXIT.failed : code;
}
