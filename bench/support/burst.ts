import { type BranchAddress, bucketName } from "../../protocol/names.ts";
import { Connections } from "./closed-loop.ts";
import type { BenchGateway } from "./servers.ts";
import { signed } from "./signing.ts";

const CONNECTIONS = 16;
const COMMIT_HEADER = "x-amz-version-id";

/** Puts small files through S3 as fast as the gateway takes them, a commit each. Returns the newest of the commits. */
export async function putBurst(
  { door, endpoint }: BenchGateway,
  { address, files }: { address: BranchAddress; files: readonly { path: string; text: string }[] },
): Promise<string> {
  const requests = await Promise.all(
    files.map(({ path, text }) =>
      signed(door, { method: "PUT", path: `/${bucketName(address)}/${path}`, body: Buffer.from(text) }),
    ),
  );
  const connections = new Connections(endpoint, { count: CONNECTIONS });
  try {
    let newest = "";
    await connections.each(requests, ({ headers }) => {
      const commit = headers[COMMIT_HEADER];
      // The ids of a branch's commits grow with time.
      if (typeof commit === "string" && commit > newest) newest = commit;
    });
    return newest;
  } finally {
    await connections.close();
  }
}
