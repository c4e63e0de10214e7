import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { writeSample } from "../support/clients/samples.ts";
import type { Door } from "../support/keys.ts";
import { run } from "../support/processes.ts";
import { S3 } from "../support/s3.ts";
import { PREAMBLE, type Step } from "./scripted.ts";
import type { Outcome } from "./suite.ts";

/** A client of which steps are run. */
export interface StepClient {
  /** The program, which the steps find under its own name. */
  readonly program: string;
  /** How the client names a bucket. */
  bucket(name: string): string;
  env(door: Door, folder: string): Readonly<Record<string, string>>;
  /** More words for its steps. */
  readonly preamble: string;
}

const AT_ONCE = 2;
/** More than a part of any of them. */
const LARGE_BYTES = 18 * 1024 * 1024;

/** Runs steps, each with a bucket and a folder of its own. They are told in the order of the list. */
export async function runSteps(
  steps: readonly Step[],
  { client, door, folder }: { readonly client: StepClient; readonly door: Door; readonly folder: string },
): Promise<Outcome[]> {
  const files = join(folder, "files");
  writeSamples(files);
  const outcomes: Outcome[] = [];
  const left = steps.entries();
  const s3 = new S3(door);
  const worker = async (): Promise<void> => {
    for (const [index, step] of left) {
      const bucket = `step-${index}`;
      await s3.createBucket(bucket);
      const own = join(folder, String(index));
      mkdirSync(own);
      const env = {
        HOME: own,
        PATH: [dirname(client.program), process.env.PATH ?? ""].join(delimiter),
        LC_ALL: "C.UTF-8",
        URL: door.endpoint,
        KEY: door.accessKeyId,
        SECRET: door.secretAccessKey,
        B: client.bucket(bucket),
        BUCKET: bucket,
        F: files,
        ...client.env(door, own),
      };
      const script = `${PREAMBLE}${client.preamble}${step.script}\n`;
      const { code, stdout, stderr } = await run(["timeout", "60", "bash", "-c", script], { env, cwd: own });
      outcomes[index] = { test: step.name, passed: code === 0, said: `${stdout}${stderr}` };
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return outcomes;
}

function writeSamples(folder: string): void {
  const texts = {
    "a.txt": "all the world is a stage\n",
    "b.txt": "and all the men and women merely players\n",
    empty: "",
    "lines.txt": Array.from({ length: 20 }, (_, line) => `line,${line + 1}\n`).join(""),
    "tree/one.txt": "one\n",
    "tree/sub/two.txt": "two of them\n",
    "tree/sub/deep/three.txt": "three, and no more\n",
  };
  for (const [name, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  writeSample(join(folder, "large.bin"), { sizeBytes: LARGE_BYTES, seed: "steps" });
}
