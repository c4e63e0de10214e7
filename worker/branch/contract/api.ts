import type { AdminCalls } from "./admin.ts";
import type { ExportCalls, ImportCalls } from "./archives.ts";
import type { ErasureCalls } from "./erasures.ts";
import type { FileCalls } from "./files.ts";
import type { ForkCalls } from "./forks.ts";
import type { HistoryCalls, TagCalls } from "./history.ts";
import type { LifecycleCalls } from "./lifecycle.ts";
import type { MultipartCalls } from "./multipart.ts";
import type { OpenCommitCalls } from "./open-commits.ts";
import type { FeedCalls, OutputCalls } from "./pipelines.ts";
import type { SettingsCalls } from "./settings.ts";
import type { UploadCalls } from "./uploads.ts";

/**
 * What the gateway and Pipeline objects ask of a Branch object (objects/facets.ts). Failures are data: `reason` is a closed
 * union. Every call may be made of a name that was never created; reading leaves no trace there.
 */
export interface BranchApi {
  readonly lifecycle: LifecycleCalls;
  readonly settings: SettingsCalls;
  readonly files: FileCalls;
  readonly uploads: UploadCalls;
  readonly multipart: MultipartCalls;
  readonly openCommits: OpenCommitCalls;
  readonly history: HistoryCalls;
  readonly tags: TagCalls;
  readonly erasures: ErasureCalls;
  readonly forks: ForkCalls;
  readonly feed: FeedCalls;
  readonly output: OutputCalls;
  readonly exports: ExportCalls;
  readonly imports: ImportCalls;
  readonly admin: AdminCalls;
}
