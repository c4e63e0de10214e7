import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { showDatums } from "../../cli/commands/job/show.ts";
import { parseAddress } from "../../cli/gateway/address.ts";
import type { Client } from "../../cli/gateway/client.ts";
import { createBucket, getFile } from "../../cli/gateway/objects.ts";
import { type Job, JobPage, Pipeline } from "../../protocol/pipelines.ts";
import { encodePath } from "../../protocol/requests.ts";
import { expectedProfile, type Profile, profileFault, readProfile, reportFault } from "./expected.ts";
import {
  DATA_BUCKET,
  PROFILE_BUCKET,
  PROFILE_SPEC,
  profilePath,
  REPORT_BUCKET,
  REPORT_FILE,
  REPORT_SPEC,
} from "./specs.ts";

interface Telling {
  /** When to give up, milliseconds since 1970. */
  readonly deadline: number;
  say(line: string): void;
}

/** Plays the demo against a gateway with one runner. Throws a DemoError if anything is not as it must be. */
export async function tellStory(client: Client, { deadline, say }: Telling): Promise<void> {
  const expected = new Map<string, Profile>();
  const put = async (file: string): Promise<void> => {
    const bytes = readFileSync(new URL(file, FOLDER));
    expected.set(file, expectedProfile(file, bytes.toString()));
    await putObject(client, { bucket: DATA_BUCKET, key: file, bytes });
    say(`put s3://${DATA_BUCKET}/${file} (${bytes.length} bytes)`);
  };

  await createBucket(client, DATA_BUCKET);
  for (const file of FIRST_FILES) await put(file);
  for (const spec of [PROFILE_SPEC, REPORT_SPEC]) {
    const { name, outputBranch, outputRepo } = await client.post(Pipeline, "/pipelines", { json: spec });
    say(`pipeline ${name} writes to s3://${outputBranch}.${outputRepo}`);
  }

  const first = await jobDone(client, { pipeline: "profile", number: 1, deadline });
  sayJob(first, say);
  expectDatums(first, { processed: FIRST_FILES.length, skipped: 0 });
  sayJob(await jobDone(client, { pipeline: "report", number: 1, deadline }), say);
  await checkResults(client, { expected, say });

  say("one more file: only that one is new");
  await put(LATER_FILE);
  const second = await jobDone(client, { pipeline: "profile", number: 2, deadline });
  sayJob(second, say);
  expectDatums(second, { processed: 1, skipped: FIRST_FILES.length });
  sayJob(await jobDone(client, { pipeline: "report", number: 2, deadline }), say);
  await checkResults(client, { expected, say });
}

async function putObject(
  client: Client,
  { bucket, key, bytes }: { bucket: string; key: string; bytes: Buffer },
): Promise<void> {
  const answer = await client.send({
    method: "PUT",
    path: `/${bucket}/${encodePath(key)}`,
    headers: { "content-length": String(bytes.length) },
    stream: () => Readable.from([bytes]),
  });
  await answer.body.dump();
}

async function getText(client: Client, { bucket, key }: { bucket: string; key: string }): Promise<string> {
  const answer = await getFile(client, parseAddress(`s3://${bucket}/${key}`));
  return answer.body.text();
}

function sayJob(job: Job, say: Telling["say"]): void {
  say(`job ${job.id} of ${job.pipeline}: ${job.state}, datums: ${showDatums(job)}`);
}

function expectDatums({ pipeline, datums }: Job, wanted: { processed: number; skipped: number }): void {
  const right =
    datums.processed === wanted.processed && datums.skipped === wanted.skipped && datums.failed === 0;
  if (!right) {
    throw new DemoError(
      `${pipeline}: ${datums.processed} datums processed and ${datums.skipped} skipped, not ${wanted.processed} and ${wanted.skipped}`,
    );
  }
}

/** Reads the results back through S3 and holds them to a count made here. */
async function checkResults(
  client: Client,
  { expected, say }: { expected: ReadonlyMap<string, Profile>; say: Telling["say"] },
): Promise<void> {
  for (const [file, profile] of expected) {
    const text = await getText(client, { bucket: PROFILE_BUCKET, key: profilePath(file) });
    const fault = profileFault(readProfile(text), profile);
    if (fault) throw new DemoError(`${profilePath(file)} is wrong: ${fault}`);
  }
  const report = await getText(client, { bucket: REPORT_BUCKET, key: REPORT_FILE });
  say(`s3://${REPORT_BUCKET}/${REPORT_FILE}:\n\n${report}`);
  const fault = reportFault(report, expected);
  if (fault) throw new DemoError(`the report is wrong: ${fault}`);
  say("the report agrees with a count made without pipelines");
}

// The package exports only its index, which lies beside the folder of the files.
const FOLDER = new URL("../data/", import.meta.resolve("vega-datasets"));

/** Real files that come with the npm package vega-datasets: US films, cars, flights, share prices, weather. */
const FIRST_FILES = [
  "cars.json",
  "flights-2k.json",
  "flights-airport.csv",
  "movies.json",
  "stocks.csv",
  "weather.csv",
] as const;

/** The file that is put when the rest is done. */
const LATER_FILE = "seattle-weather.csv";

const PROBE_EVERY_MS = 100;

/** The demo did not come out as it must; the message says what differs. */
export class DemoError extends Error {
  override readonly name = "DemoError";
}

interface Awaited {
  readonly pipeline: string;
  /** 1 is the pipeline's first job. */
  readonly number: number;
  readonly deadline: number;
}

/** Waits until a pipeline's n-th job has succeeded, and is its newest. */
async function jobDone(client: Client, { pipeline, number, deadline }: Awaited): Promise<Job> {
  for (;;) {
    const { jobs } = await client.get(JobPage, "/jobs", { pipeline, limit: "10" });
    const [newest] = jobs;
    if (jobs.length > number)
      throw new DemoError(`${pipeline} made ${jobs.length} jobs instead of ${number}`);
    if (newest?.state === "failure")
      throw new DemoError(`job ${newest.id} of ${pipeline} failed: ${newest.reason}`);
    if (newest?.state === "success" && jobs.length === number) return newest;
    if (Date.now() > deadline)
      throw new DemoError(`job ${number} of ${pipeline} does not end: ${describe(newest)}`);
    await pause(PROBE_EVERY_MS);
  }
}

function describe(job: Job | undefined): string {
  return job ? `it is ${job.state}${job.reason ? `, ${job.reason}` : ""}` : "it was never made";
}
