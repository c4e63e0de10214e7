import type { Door } from "../keys.ts";
import type { ApiTool } from "./api-tool.ts";
import { awsApi, hasAws } from "./aws-api.ts";
import { awsCli } from "./aws-cli.ts";
import { aws4fetch } from "./aws4fetch.ts";
import { boto3, hasBoto3 } from "./boto3.ts";
import type { Client, Extra } from "./client.ts";
import { clientOverSdk } from "./client-over-sdk.ts";
import { jsClient, jsSdk } from "./js-sdk.ts";
import { minioJs } from "./minio.ts";
import { hasRclone, rclone } from "./rclone.ts";
import { hasS3cmd, s3cmd } from "./s3cmd.ts";

/** A client that the stories are told with. */
export interface RosterClient {
  readonly name: string;
  /** Whether this machine has it. */
  readonly here: boolean;
  /** What it has no word for: no story that needs it is told with this client. */
  readonly lacks: readonly Extra[];
  open(door: Door): Client;
}

/** A tool that is driven operation by operation. */
export interface RosterTool {
  readonly name: string;
  readonly here: boolean;
  open(door: Door): ApiTool;
}

const WHOLE_FOLDERS = ["putFolder", "getFolder", "syncUp", "syncDown"] as const;

const AWS_CLI: RosterClient = {
  name: "aws s3",
  here: await hasAws(),
  lacks: ["putIf", "linkToPut"],
  open: awsCli,
};
const BOTO3: RosterClient = {
  name: "boto3",
  here: await hasBoto3(),
  lacks: ["putIf", ...WHOLE_FOLDERS],
  open: (door) => clientOverSdk(boto3(door)),
};
const JS_SDK: RosterClient = {
  name: "AWS SDK for JavaScript",
  here: true,
  lacks: WHOLE_FOLDERS,
  open: jsClient,
};

/** The clients that also go against R2. */
export const AWS_CLIENTS: readonly RosterClient[] = [AWS_CLI, BOTO3, JS_SDK];

export const CLIENTS: readonly RosterClient[] = [
  ...AWS_CLIENTS,
  {
    name: "s3cmd",
    here: hasS3cmd(),
    lacks: ["getUnlessKnown", "putIf", "linkToGet", "linkToPut"],
    open: s3cmd,
  },
  {
    name: "rclone",
    here: hasRclone(),
    lacks: ["getUnlessKnown", "putIf", "linkToPut", "redescribe"],
    open: rclone,
  },
  { name: "minio-js", here: true, lacks: ["getUnlessKnown", "putIf", ...WHOLE_FOLDERS], open: minioJs },
  { name: "aws4fetch", here: true, lacks: WHOLE_FOLDERS, open: aws4fetch },
];

/** The tools that also go against R2: `aws s3api` is the same engine as boto3, at a process a call. */
export const SDKS: readonly RosterTool[] = [
  { name: "boto3", here: BOTO3.here, open: boto3 },
  { name: "AWS SDK for JavaScript", here: true, open: jsSdk },
];

export const API_TOOLS: readonly RosterTool[] = [
  { name: "aws s3api", here: AWS_CLI.here, open: awsApi },
  ...SDKS,
];
