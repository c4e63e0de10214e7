import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Door } from "../keys.ts";
import { run } from "../processes.ts";
import { scratchFolder } from "../scratch.ts";
import type { ApiTool, ToolAnswer } from "./api-tool.ts";
import { awsEnvironment } from "./aws-environment.ts";

/** Debian's program, by its full path: what else is on PATH sends other things. */
export const AWS = "/usr/bin/aws";

/** Whether this machine has the AWS command line, version 2. */
export async function hasAws(): Promise<boolean> {
  return existsSync(AWS) && (await run([AWS, "--version"])).stdout.toString().startsWith("aws-cli/2.");
}

/** `aws s3api`, a process a call. */
export function awsApi(door: Door): ApiTool {
  const folder = scratchFolder();
  const env = awsEnvironment(door, folder);
  const [sent, received] = [join(folder, "sent"), join(folder, "received")];

  const s3api = async (operation: string, parameters: object, ...more: string[]): Promise<ToolAnswer> => {
    const download = operation === "get-object" ? [received] : [];
    const args = ["s3api", operation, ...flags(parameters), ...more, ...download];
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
  return {
    async call(operation, parameters, send) {
      if (send) writeFileSync(sent, send);
      const body = send ? ["--body", sent] : [];
      const onePage = operation.startsWith("list-") ? ["--no-paginate"] : [];
      return s3api(operation, parameters, ...body, ...onePage);
    },
    walk: (operation, parameters, pageSize) => s3api(operation, parameters, "--page-size", String(pageSize)),
    async close() {},
  };
}

/** `{MaxKeys: 3}` as `--max-keys 3`. */
function flags(parameters: object): string[] {
  return Object.entries(parameters).flatMap(([name, value]) => [
    `--${name.replaceAll(/([a-z])(?=[A-Z])/g, "$1-").toLowerCase()}`,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
}
