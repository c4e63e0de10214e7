import { createHash } from "node:crypto";
import type { Control } from "../../support/control.ts";

const CONTENT = Buffer.from("one of many\n");

/** Writes up to 10,000 small files as one commit, past every client: a request each would take its time. */
export async function commitMany(
  control: Control,
  { repo, paths }: { repo: string; paths: readonly string[] },
): Promise<void> {
  const content = { digest: createHash("sha256").update(CONTENT).digest("hex"), size: CONTENT.length };
  const upload = await control.openUpload(repo);
  await control.addInlineContents(upload, [{ ...content, bytes: CONTENT.toString("base64") }]);
  await control.commit(
    repo,
    upload,
    paths.map((path) => ({ put: path, ...content })),
  );
}
