import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ROOT } from "./dev-server.ts";
import type { Door } from "./keys.ts";
import { run } from "./processes.ts";
import { scratchFolder } from "./scratch.ts";

/** What an S3 tool made of an answer. */
export type ToolAnswer =
  | { readonly ok: true; readonly output: ToolOutput; readonly bytes: Buffer }
  /** `code` is the S3 error code; where an answer has no XML body, its status. */
  | { readonly ok: false; readonly code: string };

/** An operation's output under the names of the S3 API, as far as the scenarios look at it. */
export interface ToolOutput {
  readonly ETag?: string;
  readonly VersionId?: string;
  readonly ContentType?: string;
  readonly ContentLength?: number;
  readonly ContentRange?: string;
  readonly Metadata?: Readonly<Record<string, string>>;
  readonly Contents?: readonly { readonly Key: string; readonly Size: number; readonly ETag: string }[];
  readonly CommonPrefixes?: readonly { readonly Prefix: string }[];
  readonly Buckets?: readonly { readonly Name: string }[];
  readonly Deleted?: readonly { readonly Key: string }[];
  readonly IsTruncated?: boolean;
  readonly NextMarker?: string;
  readonly NextContinuationToken?: string;
  readonly KeyCount?: number;
}

/** A real S3 client program, driven call by call. Operations are named as on the command line: `list-objects-v2`. */
export interface S3Tool {
  /** One request. `send` is the body of an upload; `bytes` of the answer is the body of a download. */
  call(operation: string, parameters: object, send?: Buffer): Promise<ToolAnswer>;
  /** A listing as the tool's own paging walks it, `pageSize` keys a request. */
  walk(operation: string, parameters: object, pageSize: number): Promise<ToolAnswer>;
  /** The tool's managed upload of a file, with its multipart threshold raised so that it is one PUT. */
  upload(bucket: string, key: string, body: Buffer): Promise<ToolAnswer>;
  close(): Promise<void>;
}

/** Debian's programs, by full path: a newer one elsewhere on PATH sends what the gateway does not take yet. */
export const AWS = "/usr/bin/aws";
export const PYTHON = "/usr/bin/python3";

/** Whether this machine has the AWS command line, version 2. */
export async function hasAws(): Promise<boolean> {
  return existsSync(AWS) && (await run([AWS, "--version"])).stdout.toString().startsWith("aws-cli/2.");
}

/** Whether this machine has boto3. */
export async function hasBoto3(): Promise<boolean> {
  return existsSync(PYTHON) && (await run([PYTHON, "-c", "import boto3"])).code === 0;
}

/** Whether this machine has a curl that signs: 7.75 or newer. */
export async function hasCurl(): Promise<boolean> {
  const help = await run(["sh", "-c", "curl --help all"]);
  return help.stdout.includes("--aws-sigv4");
}

const CONFIG = `[default]
region = us-east-1
output = json
cli_pager =
s3 =
  addressing_style = path
  multipart_threshold = 256MB
`;

/** What `aws` and boto3 need to find a gateway, and no settings of this machine's user. */
export function awsEnvironment(
  { accessKeyId, secretAccessKey }: Door,
  folder: string,
): Record<string, string> {
  mkdirSync(folder, { recursive: true });
  const config = join(folder, "aws-config");
  writeFileSync(config, CONFIG);
  return {
    HOME: folder,
    AWS_CONFIG_FILE: config,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_MAX_ATTEMPTS: "1",
    AWS_EC2_METADATA_DISABLED: "true",
    LC_ALL: "C.UTF-8",
  };
}

/** `aws s3api`, a process a call. */
export function awsTool(door: Door): S3Tool {
  const folder = scratchFolder();
  const env = awsEnvironment(door, folder);
  const [sent, received] = [join(folder, "sent"), join(folder, "received")];

  const aws = async (args: readonly string[]): Promise<ToolAnswer> => {
    const { code, stdout, stderr } = await run([AWS, "--endpoint-url", door.endpoint, ...args], { env });
    if (code === 0) {
      const bytes = existsSync(received) ? readFileSync(received) : Buffer.alloc(0);
      rmSync(received, { force: true });
      const text = stdout.toString().trim();
      return { ok: true, output: text.startsWith("{") ? JSON.parse(text) : {}, bytes };
    }
    const refused = /An error occurred \(([^)]+)\)/.exec(stderr);
    if (!refused?.[1]) throw new Error(`aws ${args.join(" ")} ended with ${code}: ${stderr}`);
    return { ok: false, code: refused[1] };
  };
  const s3api = (operation: string, parameters: object, ...more: string[]): Promise<ToolAnswer> => {
    const download = operation === "get-object" ? [received] : [];
    return aws(["s3api", operation, ...flags(parameters), ...more, ...download]);
  };
  return {
    async call(operation, parameters, send) {
      if (send) writeFileSync(sent, send);
      const body = send ? ["--body", sent] : [];
      return s3api(
        operation,
        parameters,
        ...body,
        ...(operation.startsWith("list-objects") ? ["--no-paginate"] : []),
      );
    },
    walk: (operation, parameters, pageSize) => s3api(operation, parameters, "--page-size", String(pageSize)),
    async upload(bucket, key, body) {
      writeFileSync(sent, body);
      return aws(["s3", "cp", "--quiet", sent, `s3://${bucket}/${key}`]);
    },
    async close() {},
  };
}

/** `{MaxKeys: 3}` as `--max-keys 3`. */
function flags(parameters: object): string[] {
  return Object.entries(parameters).flatMap(([name, value]) => [
    `-${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
}

/** boto3, one Python process for all calls: a line of JSON a request, one an answer. */
export function boto3Tool(door: Door): S3Tool {
  const folder = scratchFolder();
  const [sent, received] = [join(folder, "sent"), join(folder, "received")];
  const python = spawn(PYTHON, [join(ROOT, "test/support/boto3_tool.py"), door.endpoint, received], {
    env: { PATH: process.env.PATH ?? "", ...awsEnvironment(door, folder) },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: python.stdout })[Symbol.asyncIterator]();

  const ask = async (request: object): Promise<ToolAnswer> => {
    rmSync(received, { force: true });
    python.stdin.write(`${JSON.stringify(request)}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error("the boto3 process ended");
    const { output, code } = JSON.parse(value);
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
    async upload(bucket, key, body) {
      writeFileSync(sent, body);
      return ask({ do: "upload", bucket, key, send: sent });
    },
    close: () =>
      new Promise((resolve) => {
        python.once("close", () => resolve());
        python.stdin.end();
      }),
  };
}
