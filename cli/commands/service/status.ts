import { setTimeout as pause } from "node:timers/promises";
import { type Job, listedState, Overview } from "../../../protocol/pipelines.ts";
import type { Command } from "../../command.ts";
import { type Client, noteAway, patiently } from "../../gateway/client.ts";
import type { ClientOptions } from "../../options.ts";
import { liveAnswer } from "../../output/live-line.ts";
import {
  count,
  printJson,
  printLine,
  shortener,
  showSpan,
  showTime,
  tableLines,
  terminalLines,
  terminalText,
  visibleLine,
} from "../../output/output.ts";
import { goodDatums } from "../job/show.ts";

interface Options extends ClientOptions {
  readonly watch?: true;
}

/** Between two looks of --watch: as often as an open page of the console asks. */
const WATCH_MS = 2500;
/** The gateway counts failures no further. */
const MOST_COUNTED = 10_000;

export function addStatus(program: Command): void {
  program
    .command("status")
    .summary("how things are: what runs, what waits and why, what failed since yesterday")
    .description(
      "Shows how things are: what failed in the last day, what of that a later job mended, what waits and why, what runs and how far it is, the nodes, and pipelines that are stopped. Of jobs of one pipeline that say the same, one is shown, and how many others there are. With --watch it goes on until Ctrl-C: on a terminal it is shown anew as it changes, else what changes is printed.",
    )
    .option("--watch", "go on as it changes")
    .clientAction(async (client, options: Options) => {
      if (options.watch) return await watch(client, options);
      const overview = await askNow(client);
      if (options.json) return printJson(overview);
      const { isTTY = false } = process.stdout;
      process.stdout.write(
        statusLines(overview, { isTTY })
          .map((line) => `${line}\n`)
          .join(""),
      );
    })
    .clientOptions(
      "sluice status",
      "sluice status --watch",
      "sluice status --json | jq '.underWay[] | select(.waitsFor)'",
    );
}

function askNow(client: Client): Promise<Overview> {
  return client.get(Overview, "/now");
}

async function watch(client: Client, { json }: Options): Promise<void> {
  const live = !json && process.stdout.isTTY ? liveAnswer() : undefined;
  const lost = () => noteAway(client);
  let before: Overview | undefined;
  for (;;) {
    const overview = await patiently(() => askNow(client), { lost });
    if (live) live.show(statusLines(overview, { isTTY: true, colours: false, most: mostOnScreen() }));
    else if (json) {
      if (!before || !isSame(before, overview)) printJson(overview);
    } else for (const line of changesOf(overview, before)) printLine(line);
    before = overview;
    await pause(WATCH_MS);
  }
}

/** What is shown anew can't scroll: of each of the three lists so many lines of jobs fit, with their reasons. */
function mostOnScreen(): number {
  const beside = 10;
  // A terminal that does not know its size says 0.
  return Math.max(1, Math.floor(((process.stdout.rows || 24) - beside) / 6));
}

/** All but the time when it was so. */
function isSame(one: Overview, other: Overview): boolean {
  return JSON.stringify({ ...one, at: 0 }) === JSON.stringify({ ...other, at: 0 });
}

/** What is new since an earlier answer, a line each; all of it if there was none. */
export function changesOf(overview: Overview, before: Overview | undefined): string[] {
  if (!before) return statusLines(overview, { isTTY: false });
  const old = new Set([...summaryLines(before), ...jobsOf(before).map(changeText)]);
  const changed = [...summaryLines(overview), ...jobsOf(overview).map(changeText)].filter(
    (line) => !old.has(line),
  );
  return changed.map((line) => `${showTime(overview.at)}  ${line}`);
}

/** Of those that ended well, little is told. */
type ToldJob = Pick<Job, "id" | "pipeline" | "state"> & Partial<Pick<Job, "waitsFor" | "datums" | "reason">>;

/** Oldest first. */
function jobsOf({ underWay, failed, ended }: Overview): ToldJob[] {
  const jobs = new Map<string, ToldJob>();
  for (const job of [...underWay, ...failed, ...ended]) if (!jobs.has(job.id)) jobs.set(job.id, job);
  return [...jobs.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

function changeText(job: ToldJob): string {
  const { id, pipeline, reason, datums } = job;
  const more = [...(datums ? [goodDatums({ datums })] : []), ...(reason ? [reason] : [])];
  return [`${pipeline} ${id}`, listedState(job), ...more].join("  ");
}

type ShownJob = Overview["failed"][number];

interface Looks {
  readonly isTTY: boolean;
  readonly colours?: boolean;
  /** Jobs of each list, or groups of them (default: all). */
  readonly most?: number;
}

/** How things are, for people. */
export function statusLines(overview: Overview, looks: Looks): string[] {
  const { underWay, failed, failedCount, more } = overview;
  const waiting = underWay.filter(isWaiting);
  const running = underWay.filter((job) => !isWaiting(job));
  const menders = failed.flatMap(({ mended }) => mended?.job ?? []);
  const short = shortener([...[...underWay, ...failed].map(({ id }) => id), ...menders]);
  const section = (title: string, jobs: readonly ShownJob[]) =>
    sectionLines({ ...{ title, jobs, short, at: overview.at }, ...looks });
  const missing = [
    ...(more.failed
      ? [
          `the newest ${failed.length} of ${failedCount} that failed: 'sluice job list --state failure' has all`,
        ]
      : []),
    ...(more.underWay
      ? [`the newest ${underWay.length} that have not ended: 'sluice job list' has all`]
      : []),
  ];
  const shown = (lines: readonly string[]) => lines.flatMap(looks.isTTY ? terminalText : visibleLine);
  return [
    ...shown(summaryLines(overview)),
    ...section(
      "FAILED",
      failed.filter(({ mended }) => !mended),
    ),
    ...section("WAITING", waiting),
    ...section("RUNNING", running),
    ...section(
      "FAILED, MENDED SINCE",
      failed.filter(({ mended }) => mended),
    ),
    ...(missing.length > 0 ? ["", ...shown(missing)] : []),
  ];
}

function isWaiting(job: Job): boolean {
  return listedState(job) === "waiting";
}

/** What there is without the jobs: how many they are, the nodes, and the pipelines that stand still. */
function summaryLines({ underWay, failedCount, more, nodes, pipelines }: Overview): string[] {
  const waiting = underWay.filter(isWaiting).length;
  const plus = more.underWay ? "+" : "";
  const counts = [
    `${underWay.length - waiting}${plus} running`,
    `${waiting}${plus} waiting`,
    `${failedCount}${failedCount >= MOST_COUNTED ? "+" : ""} failed since yesterday`,
  ];
  const [first, ...others] = pipelines.stopped;
  return [
    `${counts.join(", ")}; ${count(pipelines.total, "pipeline")}`,
    ...(nodes === null ? [] : [fleetText(nodes, { waiting })]),
    ...(first === undefined
      ? []
      : [
          `stopped: ${[first, ...others].join(", ")}; ${others.length === 0 ? "it follows" : "they follow"} no input until 'sluice pipeline start ${others.length === 0 ? first : "NAME"}'`,
        ]),
  ];
}

function fleetText(
  { live, draining, silent, running, room }: NonNullable<Overview["nodes"]>,
  { waiting }: { waiting: number },
): string {
  if (live === 0 && waiting > 0) return "no node is live, so nothing runs: 'sluice runner' starts one";
  return [
    count(live, "live node"),
    ...(draining > 0 ? [`${draining} of them drained`] : []),
    ...(silent > 0 ? [`${silent} silent`] : []),
    `${room === null || live === 0 ? count(running, "command") : `${running} of ${count(room, "command")}`} running`,
  ].join(", ");
}

interface Section extends Looks {
  readonly title: string;
  readonly jobs: readonly ShownJob[];
  readonly short: (id: string) => string;
  /** Milliseconds since 1970, by the gateway's clock. */
  readonly at: number;
}

/** A table of jobs behind an empty line; nothing if there are none. */
function sectionLines({ title, jobs, short, at, isTTY, colours = true, most }: Section): string[] {
  if (jobs.length === 0) return [];
  const groups = groupsOf(jobs);
  const left = groups.length - groups.slice(0, most).length;
  const time = title.startsWith("FAILED") ? "ENDED" : "SINCE";
  const rows = groups
    .slice(0, most)
    .map(({ job, others }) => [
      ...[job.pipeline, short(job.id), goodDatums(job), timeText(job, { at, isTTY })],
      [
        job.reason ?? "its datums run",
        ...(job.mended ? [`good since job ${short(job.mended.job)}`] : []),
        ...(others > 0 ? [othersText(job, others)] : []),
      ].join("; "),
    ]);
  const cells = [[title, "ID", "DATUMS", time, "REASON"], ...rows];
  return [
    "",
    ...(isTTY ? terminalLines(cells, { below: 1, colours }) : tableLines(cells)),
    ...(left > 0 ? [`and ${left} more: 'sluice status' has all`] : []),
  ];
}

/** How long ago for who looks at it; for who reads it later, when. */
function timeText({ createdAt, finishedAt }: Job, { at, isTTY }: { at: number; isTTY: boolean }): string {
  if (!isTTY) return showTime(finishedAt ?? createdAt);
  const span = showSpan(Math.max(0, at - (finishedAt ?? createdAt)));
  return finishedAt === null ? span : `${span} ago`;
}

function othersText({ finishedAt }: Job, others: number): string {
  const jobs = count(others, "job");
  return finishedAt === null ? `and ${jobs} behind it` : `and ${jobs} before it in the same way`;
}

interface Group {
  readonly job: ShownJob;
  /** So many others of the pipeline that wait behind it, or that ended in the same way before it. */
  readonly others: number;
}

/**
 * Jobs that say the same are one line: of those that wait for each other the one that all wait for, of those that failed in
 * one way the newest.
 */
function groupsOf(jobs: readonly ShownJob[]): Group[] {
  const groups = new Map<string, { job: ShownJob; others: number }>();
  for (const job of jobs) {
    const name = job.finishedAt === null ? job.pipeline : `${job.pipeline} ${job.reason}`;
    const group = groups.get(name);
    if (!group) groups.set(name, { job, others: 0 });
    else {
      group.others++;
      // They come newest first: the oldest is the one that the others wait for, unless another one of them stands still.
      if (job.finishedAt === null && (job.waitsFor !== "job" || group.job.waitsFor === "job"))
        group.job = job;
    }
  }
  return [...groups.values()];
}
