import { createHash } from "node:crypto";
import { type CreateCommit, MAX_COMMIT_OPERATIONS, MAX_CONTENTS_PER_CALL } from "../../protocol/files.ts";
import type { BranchAddress } from "../../protocol/names.ts";
import type { Control } from "./control.ts";

/** A small file to be written. */
export interface TextFile {
  readonly path: string;
  readonly text: string;
}

interface Files {
  readonly address: BranchAddress;
  readonly files: readonly TextFile[];
}

/** Writes up to MAX_COMMIT_OPERATIONS small files as one commit. Returns its id. */
export async function commitTexts(control: Control, { address, files }: Files): Promise<string> {
  if (files.length > MAX_COMMIT_OPERATIONS) throw new Error(`${files.length} files do not fit a commit`);
  return control.commit(address, await uploadTexts(control, { address, files }));
}

/** So many small files, and where they go. */
interface ManyFiles {
  readonly address: BranchAddress;
  readonly puts: number;
  readonly pathOf: (index: number, puts: number) => string;
}

/** Writes so many small files as one commit, in pages through an open commit. */
export async function commitThroughSession(control: Control, many: ManyFiles): Promise<void> {
  await control.finishSession(many.address, await stageMany(control, many));
}

/** Adds so many small files, in pages, to an open commit. Returns its session. */
export async function stageMany(control: Control, { address, puts, pathOf }: ManyFiles): Promise<string> {
  const session = await control.openSession(address);
  for (let first = 0; first < puts; first += MAX_COMMIT_OPERATIONS) {
    const files = Array.from({ length: Math.min(MAX_COMMIT_OPERATIONS, puts - first) }, (_, i) => {
      const path = pathOf(first + i, puts);
      return { path, text: `${path}\n` };
    });
    await stageTexts(control, { address, session, files });
  }
  return session;
}

/** Adds up to MAX_COMMIT_OPERATIONS small files to an open commit. */
export async function stageTexts(
  control: Control,
  { address, session, files }: Files & { session: string },
): Promise<void> {
  await control.stage(address, { ...(await uploadTexts(control, { address, files })), session });
}

/** Brings the contents to the branch. Returns the commit that names them. */
async function uploadTexts(control: Control, { address, files }: Files): Promise<CreateCommit> {
  const upload = await control.openUpload(address);
  const contents = files.map(({ text }) => inlineContent(text));
  for (let at = 0; at < contents.length; at += MAX_CONTENTS_PER_CALL) {
    await control.addContents(upload, contents.slice(at, at + MAX_CONTENTS_PER_CALL));
  }
  const operations = files.map(({ path }, i) => {
    const { digest = "", size = 0 } = contents[i] ?? {};
    return { put: path, digest, size };
  });
  return { upload, operations };
}

function inlineContent(text: string) {
  const bytes = Buffer.from(text);
  const digest = createHash("sha256").update(bytes).digest("hex");
  return { digest, size: bytes.length, bytes: bytes.toString("base64") };
}
