import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";
import { mustRun } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";
import { awsEnvironment } from "./aws-environment.ts";
import type { Place } from "./client.ts";
import { startJsonProcess } from "./json-process.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, "test/python");
/** Made by test/python/install. */
const PYTHON = join(ROOT, ".venv/bin/python");

/** Whether this machine has the clients of test/python/requirements.txt, in those versions. */
export function hasPythonClients(): boolean {
  const installed = join(ROOT, ".venv/requirements.txt");
  if (!existsSync(installed)) return false;
  return readFileSync(installed).equals(readFileSync(join(FOLDER, "requirements.txt")));
}

/** The clients for Python that move objects; `tables.py` has those that keep tables. */
export const PYTHON_CLIENTS = ["pyarrow", "obstore", "smart_open", "s3torchconnectorclient"] as const;
export type PythonClient = (typeof PYTHON_CLIENTS)[number];

/** What such a client does with objects. Files go in and out by their paths. A verb that fails throws what it said. */
export interface PythonObjects {
  put(file: string, to: Place): Promise<void>;
  /** obstore alone: puts it only if the key is free. */
  putNew(file: string, to: Place): Promise<void>;
  get(from: Place, file: string): Promise<void>;
  /** Writes the bytes `first` to `last`, both included, into a file. */
  range(from: Place, bytes: { first: number; last: number; file: string }): Promise<void>;
  /** In bytes. */
  size(place: Place): Promise<number>;
  list(bucket: string, prefix: string): Promise<string[]>;
  /** Within a bucket. */
  copy(from: Place, to: string): Promise<void>;
  remove(bucket: string, keys: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** A client in a process of its own. No request is tried again: a fault would go unseen. */
export function pythonObjects(door: Door, client: PythonClient): PythonObjects {
  const python = startJsonProcess([PYTHON, join(FOLDER, "objects.py"), client], pythonEnvironment(door));
  const ask = async <Output>(verb: string, given: object): Promise<Output> => {
    const answer = await python.ask<{ output: Output; error?: string }>({ verb, given });
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.output;
  };
  return {
    put: (file, to) => ask("put", { file, ...to }),
    putNew: (file, to) => ask("put_new", { file, ...to }),
    get: (from, file) => ask("get", { ...from, file }),
    range: (from, bytes) => ask("range", { ...from, ...bytes }),
    size: (place) => ask("size", place),
    list: (bucket, prefix) => ask("list", { bucket, prefix }),
    copy: (from, to) => ask("copy", { ...from, to }),
    remove: (bucket, keys) => ask("remove", { bucket, keys }),
    close: python.close,
  };
}

/** Runs one step of `tables.py` in a process of its own; answers what it printed as JSON. */
export async function pythonTable<Output>(
  door: Door,
  format: string,
  step: string,
  given: object,
): Promise<Output> {
  const command = [PYTHON, join(FOLDER, "tables.py"), format, step];
  return JSON.parse(await mustRun(command, { env: pythonEnvironment(door), input: JSON.stringify(given) }));
}

function pythonEnvironment(door: Door): Record<string, string> {
  return {
    ...awsEnvironment(door, scratchFolder()),
    AWS_ENDPOINT_URL: door.endpoint,
    AWS_REGION: "us-east-1",
    // The tests run from a folder that need not be theirs to write to.
    PYTHONDONTWRITEBYTECODE: "1",
  };
}
