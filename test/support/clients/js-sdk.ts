import { createReadStream, createWriteStream, readFileSync, statSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as s3 from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import type { Door } from "../keys.ts";
import { good, type Sdk, type ToolAnswer, type ToolOutput } from "./api-tool.ts";
import type { Client, Description, Place } from "./client.ts";
import { clientOverSdk, parametersOf } from "./client-over-sdk.ts";

/** Above this, Upload sends parts: its own bound. */
const PART_BYTES = 5 * 1024 * 1024;

/** The AWS SDK for JavaScript, version 3, as it comes: it adds a CRC to what it sends, in a trailer where it streams. */
export function jsSdk(door: Door): Sdk {
  forgetUserSettings();
  const client = new s3.S3Client({
    endpoint: door.endpoint,
    region: "us-east-1",
    credentials: door,
    forcePathStyle: true,
    maxAttempts: 1,
  });
  const call = async (operation: string, parameters: object, send?: Buffer): Promise<ToolAnswer> => {
    try {
      const input = { ...parameters, ...(send ? { Body: send } : {}) };
      const output: object = await client.send(commandOf(operation, input));
      return { ok: true, output, bytes: await bodyOf(output) };
    } catch (error) {
      const code = codeOf(error);
      if (code === undefined) throw error;
      return { ok: false, code };
    }
  };
  return {
    call,
    walk: (operation, parameters, pageSize) => walk({ call }, { operation, parameters, pageSize }),
    async upload(file, { bucket, key, description }) {
      const params = {
        Bucket: bucket,
        Key: key,
        Body: createReadStream(file),
        ...describing(description),
      };
      if (statSync(file).size > PART_BYTES) await new Upload({ client, params }).done();
      else await client.send(new s3.PutObjectCommand(params));
    },
    async download({ bucket, key }, file) {
      const { Body } = await client.send(new s3.GetObjectCommand({ Bucket: bucket, Key: key }));
      if (!(Body instanceof Readable)) throw new Error("the SDK answered no stream");
      await pipeline(Body, createWriteStream(file));
    },
    async copy(from, { bucket, key }) {
      good(await call("copy-object", { Bucket: bucket, Key: key, CopySource: copySource(from) }));
    },
    presign(operation, { bucket, key }) {
      return getSignedUrl(client, commandOf(operation, { Bucket: bucket, Key: key }));
    },
    async close() {
      client.destroy();
    },
  };
}

/** Its verbs as a client. */
export function jsClient(door: Door): Client {
  const sdk = jsSdk(door);
  return {
    ...clientOverSdk(sdk),
    async putIf(file, { bucket, key, condition }) {
      const only = "ifMatch" in condition ? { IfMatch: condition.ifMatch } : { IfNoneMatch: "*" };
      const answer = await sdk.call("put-object", { Bucket: bucket, Key: key, ...only }, readFileSync(file));
      if (!answer.ok && answer.code === "412") return "refused";
      good(answer);
      return "put";
    },
  };
}

// It runs in this process, so it would read what this machine's user has set for himself.
function forgetUserSettings(): void {
  for (const name of Object.keys(process.env)) if (name.startsWith("AWS_")) delete process.env[name];
  process.env.AWS_CONFIG_FILE = "/dev/null";
  process.env.AWS_SHARED_CREDENTIALS_FILE = "/dev/null";
}

type Commands = Readonly<Record<string, new (input: object) => s3.PutObjectCommand>>;

/** `list-objects-v2` is `new ListObjectsV2Command(input)`. */
function commandOf(operation: string, input: object): s3.PutObjectCommand {
  const name = operation.replaceAll(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const Command = (s3 as unknown as Commands)[`${name}Command`];
  if (!Command) throw new Error(`the SDK has no ${name}Command`);
  return new Command(input);
}

async function bodyOf(output: object): Promise<Buffer> {
  if (!("Body" in output) || !(output.Body instanceof Readable)) return Buffer.alloc(0);
  return Buffer.concat(await output.Body.toArray());
}

// Where an answer has no XML body the SDK makes up a name, or fails on it (the plain text of 412);
// the status is what the other tools tell.
function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("$metadata" in error)) return undefined;
  const { httpStatusCode } = error.$metadata as s3.S3ServiceException["$metadata"];
  const named = error instanceof s3.S3ServiceException && error.message !== "UnknownError";
  return named && ![304, 412].includes(httpStatusCode ?? 0) ? error.name : String(httpStatusCode);
}

function describing(description: Description | undefined): object {
  return description ? parametersOf(description) : {};
}

function copySource({ bucket, key }: Place): string {
  return `${bucket}/${key.split("/").map(encodeURIComponent).join("/")}`;
}

interface Walk {
  readonly operation: string;
  readonly parameters: object;
  readonly pageSize: number;
}

// The SDK has paginators for version 2 alone.
async function walk(
  { call }: Pick<Sdk, "call">,
  { operation, parameters, pageSize }: Walk,
): Promise<ToolAnswer> {
  const Contents: NonNullable<ToolOutput["Contents"]>[number][] = [];
  const CommonPrefixes: NonNullable<ToolOutput["CommonPrefixes"]>[number][] = [];
  let from: object = {};
  for (;;) {
    const page = await call(operation, { ...parameters, MaxKeys: pageSize, ...from });
    if (!page.ok) return page;
    Contents.push(...(page.output.Contents ?? []));
    CommonPrefixes.push(...(page.output.CommonPrefixes ?? []));
    const { IsTruncated, NextContinuationToken, NextMarker } = page.output;
    if (!IsTruncated) return { ok: true, output: { Contents, CommonPrefixes }, bytes: page.bytes };
    from = NextContinuationToken
      ? { ContinuationToken: NextContinuationToken }
      : { Marker: NextMarker ?? Contents.at(-1)?.Key };
  }
}
