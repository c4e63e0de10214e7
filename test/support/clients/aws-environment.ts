import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";

const CONFIG = `[default]
region = us-east-1
output = json
cli_pager =
s3 =
  addressing_style = path
`;

/** What `aws` and boto3 need to find a gateway, and no settings of this machine's user. A fault is not tried again: it would go unseen. */
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
