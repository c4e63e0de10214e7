import type { Door } from "../keys.ts";
import { mustRun, run } from "../processes.ts";

const CURL = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*"];

/** Whether this machine has a curl that signs: 7.75 or newer. */
export async function hasCurl(): Promise<boolean> {
  const help = await run(["sh", "-c", "curl --help all"]);
  return help.stdout.includes("--aws-sigv4");
}

/** curl with no key of its own: what a link alone lets it do. Answers the body. */
export function curl(...args: string[]): Promise<string> {
  return mustRun([...CURL, ...args]);
}

/** curl that signs, as docs/s3-clients.md tells. */
export function signingCurl({ accessKeyId, secretAccessKey }: Door): typeof curl {
  return (...args) =>
    curl(
      ...["--aws-sigv4", "aws:amz:auto:s3", "--user", `${accessKeyId}:${secretAccessKey}`],
      ...["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"],
      ...args,
    );
}
