import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";
import { run } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";
import { good, type Sdk, type ToolAnswer, type ToolOutput } from "./api-tool.ts";
import { awsEnvironment } from "./aws-environment.ts";
import type { Place } from "./client.ts";
import { parametersOf } from "./client-over-sdk.ts";
import { startJsonProcess } from "./json-process.ts";

const PYTHON = "/usr/bin/python3";

/** Whether this machine has boto3. */
export async function hasBoto3(): Promise<boolean> {
  return existsSync(PYTHON) && (await run([PYTHON, "-c", "import boto3"])).code === 0;
}

/** A form as a client signs it: where it is posted to, and the fields before its file. */
export interface PresignedForm {
  readonly url: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** What a form is to hold. */
export interface FormTerms extends Place {
  readonly fields: Readonly<Record<string, string>>;
  readonly conditions: readonly unknown[];
}

export interface Boto3 extends Sdk {
  presignPost(terms: FormTerms): Promise<PresignedForm>;
}

/** boto3, one Python process for all calls: a line of JSON a request, one an answer. */
export function boto3(door: Door): Boto3 {
  const folder = scratchFolder();
  const [sent, received] = [join(folder, "sent"), join(folder, "received")];
  const command = [PYTHON, join(import.meta.dirname, "boto3_tool.py"), door.endpoint, received];
  const python = startJsonProcess(command, awsEnvironment(door, folder));

  const ask = async (request: object): Promise<ToolAnswer> => {
    rmSync(received, { force: true });
    const { output, code } = await python.ask<{ output: ToolOutput; code?: string }>(request);
    if (code !== undefined) return { ok: false, code };
    const bytes = existsSync(received) ? readFileSync(received) : Buffer.alloc(0);
    return { ok: true, output, bytes };
  };
  return {
    async call(operation, parameters, send) {
      if (send) writeFileSync(sent, send);
      return ask({ do: "call", operation, parameters, ...(send ? { send: sent } : {}) });
    },
    walk: (operation, parameters, pageSize) => ask({ do: "walk", operation, parameters, pageSize }),
    async upload(file, { bucket, key, description }) {
      const extra = description ? { extra: parametersOf(description) } : {};
      good(await ask({ do: "upload", file, bucket, key, ...extra }));
    },
    async download({ bucket, key }, file) {
      good(await ask({ do: "download", file, bucket, key }));
    },
    async copy(from, { bucket, key }) {
      good(await ask({ do: "copy", source: { Bucket: from.bucket, Key: from.key }, bucket, key }));
    },
    async presign(operation, { bucket, key }) {
      const request = { do: "presign", operation, parameters: { Bucket: bucket, Key: key } };
      return linkOf(good(await ask(request)));
    },
    async presignPost(terms) {
      const output: object = good(await ask({ do: "presign_post", ...terms }));
      if ("Form" in output) return output.Form as PresignedForm;
      throw new Error("boto3 made no form");
    },
    close: python.close,
  };
}

function linkOf(output: object): string {
  if ("Url" in output && typeof output.Url === "string") return output.Url;
  throw new Error("boto3 made no link");
}
