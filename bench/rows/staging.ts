import { execFile } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { bucketName } from "../../protocol/names.ts";
import { Cache } from "../../runner/cache/cache.ts";
import { bootId } from "../../runner/pfs/folders.ts";
import { PipeStock } from "../../runner/pfs/lazy/pipe-stock.ts";
import { type LeasedInput, stage } from "../../runner/pfs/stage.ts";
import { removeScratch, scratchFolder } from "../../test/support/scratch.ts";
import { type BigBody, bigBody } from "../support/big-body.ts";
import { Control } from "../support/control.ts";
import type { Figure, Pair } from "../support/figure.ts";
import { interleaved } from "../support/pairs.ts";
import type { Row } from "../support/row.ts";
import { type BenchGateway, log, startBenchGateway } from "../support/servers.ts";
import { signed } from "../support/signing.ts";
import { transfer } from "../support/transfer.ts";

const run = promisify(execFile);
const SIZE_BYTES = { full: 1024 ** 3, quick: 256 * 1024 ** 2 } as const;
const ADDRESS = { repo: "staged", branch: "master" };
const FILE = "large";

/** How a large input comes to a node: fetched, held to its digest and laid out; and again, out of the cache. */
export const staging: Row = {
  name: "staging",
  title: "laying out one large input file, against curl of the same bytes to a file",
  async run({ pairs, scale }) {
    const gateway = await startBenchGateway();
    const control = new Control(gateway.door);
    const folder = scratchFolder();
    const body = bigBody(SIZE_BYTES[scale], { seed: "staged" });
    try {
      await control.createBranch(ADDRESS);
      await putBody(gateway, body);
      const node = { control, folder, input: await leasedInput(control) };
      const again: Pair[] = [];
      const first = await interleaved(pairs, {
        async ours() {
          const seconds = await stageTwice(node);
          again.push({ ours: seconds.second, other: seconds.first });
          return seconds.first;
        },
        other: () => curlSeconds(gateway, folder),
      });
      const megabytes = body.size / 1e6;
      const rates = first.map(({ ours, other }) => ({ ours: megabytes / ours, other: megabytes / other }));
      return figures(`${body.size / 1024 ** 2} MiB`, { rates, again: again.slice(-pairs) });
    } finally {
      await control.close();
      await gateway.stop();
      removeScratch(folder);
    }
  },
};

function figures(size: string, { rates, again }: { rates: Pair[]; again: Pair[] }): Figure[] {
  const millis = again.map(({ ours, other }) => ({ ours: ours * 1000, other: other * 1000 }));
  return [
    {
      ...{ what: `${size}, the first time`, unit: "MB/s", against: "curl", compare: "ratio" },
      ...{ pairs: rates, target: { atLeast: 0.6 } },
    },
    {
      ...{ what: `${size}, out of the cache`, unit: "ms", against: "the first time", compare: "ratio" },
      ...{ pairs: millis, target: { atMost: 0.05 } },
    },
  ];
}

async function putBody({ door, endpoint }: BenchGateway, body: BigBody): Promise<void> {
  const request = await signed(door, { method: "PUT", path: `/${bucketName(ADDRESS)}/${FILE}` });
  await transfer(endpoint, { request, pieces: body.pieces(), size: body.size });
}

/** The file as a lease names it. */
async function leasedInput(control: Control): Promise<LeasedInput> {
  // One more file: what is put through the control client tells its commit.
  const commit = await control.putFile(ADDRESS, { path: "small", bytes: "small" });
  const { files } = await control.runner.files({ ...ADDRESS, commit, prefix: FILE }, control.signal);
  const [file] = files;
  if (file?.kind !== "file") throw new Error("the large file is not there");
  const content = { digest: file.digest, size: file.size };
  return { ...ADDRESS, name: "in", commit, path: FILE, kind: "file", content, lazy: false, from: null };
}

interface Node {
  readonly control: Control;
  /** On one file system with what curl writes. */
  readonly folder: string;
  readonly input: LeasedInput;
}

/** Seconds that an empty node takes to lay the input out, and to lay it out once more. */
async function stageTwice({ control, folder, input }: Node): Promise<{ first: number; second: number }> {
  const dir = join(folder, "node");
  const incoming = join(dir, "agents", "one", "incoming");
  mkdirSync(incoming, { recursive: true });
  const { signal, runner: gateway } = control;
  const cache = new Cache({
    ...{
      dir: join(dir, "cache"),
      agents: join(dir, "agents"),
      incoming,
      erased: null,
      maxBytes: 64 * 1024 ** 3,
    },
    ...{ boot: await bootId(), gateway, log, kill: signal },
  });
  const deps = { cache, gateway, pipes: new PipeStock(join(dir, "pipes")) };
  const time = async (name: string): Promise<number> => {
    const pfs = join(dir, name);
    const startedAt = performance.now();
    await stage(deps, { pfs, inputs: [input], signal });
    const seconds = (performance.now() - startedAt) / 1000;
    if (!existsSync(join(pfs, "in", FILE))) throw new Error("the file was not laid out");
    return seconds;
  };
  try {
    return { first: await time("first"), second: await time("second") };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

async function curlSeconds({ door, endpoint }: BenchGateway, folder: string): Promise<number> {
  const target = join(folder, "curled");
  const key = `${door.accessKeyId}:${door.secretAccessKey}`;
  const url = `${endpoint}/${bucketName(ADDRESS)}/${FILE}`;
  const startedAt = performance.now();
  await run("curl", [
    ...["--silent", "--show-error", "--fail", "--aws-sigv4", "aws:amz:auto:s3", "--user", key],
    ...["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--output", target, url],
  ]);
  const seconds = (performance.now() - startedAt) / 1000;
  rmSync(target);
  return seconds;
}
