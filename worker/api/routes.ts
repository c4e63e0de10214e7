import * as exports from "./admin/exports.ts";
import * as fsck from "./admin/fsck.ts";
import * as host from "./admin/host.ts";
import * as imports from "./admin/imports.ts";
import * as keys from "./admin/keys.ts";
import * as nodes from "./admin/nodes.ts";
import { rebuild } from "./admin/rebuild.ts";
import * as sessions from "./admin/sessions.ts";
import * as commits from "./commits/commits.ts";
import { readDownstream } from "./commits/downstream.ts";
import { eraseFile } from "./commits/erasures.ts";
import * as log from "./commits/log.ts";
import * as openCommits from "./commits/open-commits.ts";
import * as provenance from "./commits/provenance.ts";
import * as tags from "./commits/tags.ts";
import { readLogs } from "./job-logs.ts";
import * as jobs from "./jobs.ts";
import { showNow } from "./now.ts";
import * as pipelines from "./pipelines/pipelines.ts";
import * as standing from "./pipelines/standing.ts";
import * as versions from "./pipelines/versions.ts";
import * as repos from "./repos/repos.ts";
import * as usage from "./repos/usage.ts";
import { ANY_KEY, noRepo, pipelineInPath, type Route, repoInPath } from "./request/admit.ts";
import type { BodyLimits } from "./request/body-scan.ts";
import * as runner from "./runner.ts";
import * as uploads from "./uploads.ts";

/** What a runner needs to say that it lives, and to lease and report. To read and to upload it needs the grants of its leases. */
const FLEET = [{ permission: "work", of: noRepo }] as const;
/** Keys and nodes belong to no repo. They take `admin`, because a key that may hand out keys may do everything. */
const MANAGE = [{ permission: "admin", of: noRepo }] as const;
/** What belongs to no repo, or to many: the answer has what the key may see of it. */
const TO_LIST = [{ permission: "list", of: noRepo }] as const;
const TO_READ_ALL = [{ permission: "read", of: noRepo }] as const;
const TO_REPO = [{ permission: "write", of: repoInPath }] as const;
const TO_MANAGE_REPO = [{ permission: "admin", of: repoInPath }] as const;
const TO_EXPORT = { needs: TO_MANAGE_REPO, query: true } as const;
const TO_READ_REPO = [{ permission: "read", of: repoInPath }] as const;
const TO_ASK_REPO = { needs: TO_READ_REPO, query: true } as const;
const TO_READ_PIPELINE = [{ permission: "read", of: pipelineInPath }] as const;
const TO_CHANGE_PIPELINE = [{ permission: "admin", of: pipelineInPath }] as const;
/** A start makes its code run over all of its inputs. */
const TO_RUN_PIPELINE = [
  { permission: "admin", of: pipelineInPath },
  { permission: "run", of: pipelineInPath },
  { permission: "read", of: pipelines.pipelineInputs },
] as const;
const TO_READ_JOB = [{ permission: "read", of: jobs.jobRepo }] as const;
const TO_RUN_JOB = [
  { permission: "admin", of: jobs.jobRepo },
  { permission: "run", of: jobs.jobRepo },
  { permission: "read", of: jobs.retryInputs },
] as const;
const TO_OPEN_UPLOAD = [{ permission: "write", of: uploads.newUploadRepo }] as const;
const TO_UPLOAD = {
  needs: [{ permission: "write", of: uploads.uploadRepo }],
  granted: runner.grantsUpload,
} as const;

const KIB = 1024;
const MIB = 1024 * KIB;
/** No body has more: a specification's deepest field is five deep. */
const DEPTH = 16;
/** Fields of one object, such as the variables of a command or the metadata of a file. */
const KEYS = 100;

/** What a body may hold that only says what is asked for. */
export const SMALL_BODY: BodyLimits = { bytes: 64 * KIB, depth: DEPTH, keys: KEYS, values: 1000 };
/** Where a check of a branch ended: a path of 1,024 bytes at most, or what its hasher knows, as JSON inside JSON. */
const TOKEN_BODY: BodyLimits = { bytes: 256 * KIB, depth: DEPTH, keys: KEYS, values: 100 };
/** A specification of 1,000,000 bytes (docs/contract.md), written with much air, and its text with each line end and quote escaped. */
const SPEC_BODY: BodyLimits = { bytes: 4 * MIB, depth: DEPTH, keys: KEYS, values: 25_000 };
/** MAX_COMMIT_OPERATIONS with paths of 1,024 bytes, or with some attributes each. */
const COMMIT_BODY: BodyLimits = { bytes: 16 * MIB, depth: DEPTH, keys: KEYS, values: 200_000 };
/** MAX_CONTENTS_PER_CALL, or MAX_PARTS_PER_CALL, by their digests. */
const DIGESTS_BODY: BodyLimits = { bytes: 256 * KIB, depth: DEPTH, keys: KEYS, values: 4000 };
/** MAX_CONTENTS_PER_CALL of INLINE_LIMIT_BYTES, in base64. */
const CONTENTS_BODY: BodyLimits = { bytes: 8 * MIB, depth: DEPTH, keys: KEYS, values: 5000 };
/** What a runner sends at once: some 4 MiB, and one datum with MAX_OUTPUTS_PER_DATUM paths of 1,024 bytes. */
const OUTCOMES_BODY: BodyLimits = { bytes: 16 * MIB, depth: DEPTH, keys: KEYS, values: 250_000 };
/** MAX_LOG_LINES with MAX_LOGS_CHARACTERS, each character written as `\u0000`. */
const LOGS_BODY: BodyLimits = { bytes: 4 * MIB, depth: DEPTH, keys: KEYS, values: 8000 };

/** A page of ARCHIVE_PAGE_BYTES, and what its last row may bring more. The first one has as many rules as a branch can have. */
const ARCHIVE_BODY: BodyLimits = { bytes: 8 * MIB, depth: DEPTH, keys: KEYS, values: 20_000 };
const TO_IMPORT = { needs: TO_MANAGE_REPO, body: ARCHIVE_BODY };
/** MAX_MOVED_KEYS, each with as many repos as it can have. */
const KEYS_BODY: BodyLimits = { bytes: 4 * MIB, depth: DEPTH, keys: KEYS, values: 1000 };

type Methods = Readonly<Record<string, Route>>;

/** The routes below a path, each to its methods. */
function below(path: string, routes: Readonly<Record<string, Methods>>): Record<string, Methods> {
  return Object.fromEntries(Object.entries(routes).map(([rest, methods]) => [path + rest, methods]));
}

/** Every route: path, then method, to what it needs, what its body may hold, and what it does. */
export const ROUTES: Readonly<Record<string, Methods>> = {
  "/pipelines": {
    GET: { needs: TO_LIST, query: true, handle: pipelines.listPipelines },
    POST: {
      needs: [
        { permission: "admin", of: pipelines.newPipelineRepo },
        { permission: "run", of: pipelines.newPipelineRepo },
        { permission: "read", of: pipelines.newPipelineInputs },
      ],
      body: SPEC_BODY,
      query: true,
      handle: pipelines.createPipeline,
    },
  },
  "/graph": { GET: { needs: TO_LIST, handle: standing.showGraph } },
  "/now": { GET: { needs: TO_LIST, handle: showNow } },
  "/jobs": {
    GET: { needs: [{ permission: "list", of: jobs.jobsRepo }], query: true, handle: jobs.listJobs },
  },
  "/fsck": { GET: { needs: MANAGE, query: true, handle: fsck.listForCheck } },
  "/repos": { GET: { needs: TO_LIST, query: true, handle: repos.listRepos } },
  "/repos/sums": { GET: { needs: TO_LIST, query: true, handle: usage.branchSums } },
  "/repos/:repo/usage": { GET: { needs: TO_READ_REPO, query: true, handle: usage.repoUsage } },
  "/usage": { GET: { needs: TO_READ_ALL, handle: usage.catalogueUsage } },
  "/repos/:repo/branches": {
    GET: { needs: [{ permission: "list", of: repoInPath }], handle: repos.listBranches },
    POST: {
      needs: [
        { permission: "admin", of: repoInPath },
        { permission: "read", of: repos.newBranchSource },
      ],
      handle: repos.createBranch,
    },
  },
  "/repos/:repo/tags": { GET: { needs: TO_READ_REPO, query: true, handle: tags.listTags } },
  "/nodes": { GET: { needs: TO_READ_ALL, handle: nodes.listNodes } },
  "/nodes/:node/drain": { POST: { needs: MANAGE, handle: nodes.drainNode } },
  "/nodes/:node/resume": { POST: { needs: MANAGE, handle: nodes.resumeNode } },
  "/admin/log": { GET: { needs: MANAGE, handle: host.showLog } },
  "/admin/rebuild": { POST: { needs: MANAGE, query: true, handle: rebuild } },
  "/admin/scrub": {
    GET: { needs: MANAGE, handle: host.scrubState },
    POST: { needs: MANAGE, handle: host.startScrub },
  },
  "/keys": {
    GET: { needs: MANAGE, query: true, handle: keys.listKeys },
    POST: { needs: MANAGE, handle: keys.createKey },
  },
  "/console/sessions": {
    GET: { needs: TO_LIST, handle: sessions.listSessions },
    POST: { needs: TO_LIST, handle: sessions.createSession },
  },
  "/console/sessions/:session": { DELETE: { needs: TO_LIST, handle: sessions.endSession } },
  "/whoami": { GET: { needs: ANY_KEY, handle: keys.whoAmI } },
  "/keys/export": { POST: { needs: MANAGE, handle: keys.exportAccessKeys } },
  "/keys/import": { POST: { needs: MANAGE, body: KEYS_BODY, handle: keys.importAccessKeys } },
  "/keys/reseal": { POST: { needs: MANAGE, query: true, handle: keys.reseal } },
  "/keys/:key": { DELETE: { needs: MANAGE, handle: keys.deleteKey } },
  ...below("/repos/:repo/branches/:branch", {
    "/fsck": { POST: { needs: MANAGE, body: TOKEN_BODY, handle: fsck.checkBranch } },
    "/sweep": {
      GET: { needs: MANAGE, query: true, handle: fsck.sweepState },
      POST: { needs: MANAGE, handle: fsck.startSweep },
    },
    "": {
      GET: { needs: TO_READ_REPO, handle: repos.inspectBranch },
      DELETE: { needs: TO_MANAGE_REPO, query: true, handle: repos.deleteBranch },
    },
    "/loops": { GET: { needs: TO_MANAGE_REPO, handle: repos.showBranchLoops } },
    "/public": { PUT: { needs: TO_MANAGE_REPO, handle: repos.setPublic } },
    "/keep": { PUT: { needs: TO_MANAGE_REPO, handle: repos.setKeep } },
    "/writer": { PUT: { needs: TO_MANAGE_REPO, handle: repos.setWriter } },
    "/last-modified": { PUT: { needs: TO_MANAGE_REPO, handle: repos.setLastModified } },
    "/reads": { PUT: { needs: TO_MANAGE_REPO, handle: repos.setReads } },
    "/empty-only": { PUT: { needs: TO_MANAGE_REPO, handle: repos.setEmptyOnly } },
    "/commits": {
      GET: { needs: TO_READ_REPO, query: true, handle: log.listCommits },
      POST: { needs: TO_REPO, body: COMMIT_BODY, handle: commits.createCommit },
    },
    "/commits/:commit": { GET: { needs: TO_READ_REPO, handle: log.inspectCommit } },
    "/commits/:commit/diff": { GET: { needs: TO_READ_REPO, query: true, handle: log.diffCommit } },
    "/commits/:commit/revert": { POST: { needs: TO_REPO, handle: openCommits.revertCommit } },
    "/commits/:commit/redact": { POST: { needs: TO_MANAGE_REPO, handle: log.redactAnnotation } },
    "/commits/:commit/provenance": { GET: { ...TO_ASK_REPO, handle: provenance.readProvenance } },
    "/commits/:commit/derived": { GET: { ...TO_ASK_REPO, handle: provenance.readDerived } },
    "/commits/:commit/downstream": { GET: { ...TO_ASK_REPO, handle: readDownstream } },
    "/commits/:commit/files": {
      GET: { needs: TO_READ_REPO, granted: runner.grantsFiles, query: true, handle: commits.listFiles },
    },
    "/erasures": { POST: { needs: TO_MANAGE_REPO, handle: eraseFile } },
    "/sessions": {
      GET: { needs: TO_REPO, query: true, handle: openCommits.listOpenCommits },
      POST: { needs: TO_REPO, handle: openCommits.startOpenCommit },
    },
    "/sessions/:session/diff": { GET: { needs: TO_REPO, query: true, handle: openCommits.diffOpenCommit } },
    "/exports": { POST: { needs: TO_MANAGE_REPO, handle: exports.beginExport } },
    "/exports/:export": { DELETE: { needs: TO_MANAGE_REPO, handle: exports.endExport } },
    "/exports/:export/commits": { GET: { ...TO_EXPORT, handle: exports.exportCommits } },
    "/exports/:export/tags": { GET: { ...TO_EXPORT, handle: exports.exportTags } },
    "/exports/:export/files": { GET: { ...TO_EXPORT, handle: exports.exportFiles } },
    "/imports": { POST: { ...TO_IMPORT, handle: imports.beginImport } },
    "/imports/:import": { DELETE: { needs: TO_MANAGE_REPO, handle: imports.abortImport } },
    "/imports/:import/commits": { POST: { ...TO_IMPORT, handle: imports.importCommits } },
    "/imports/:import/tags": { POST: { ...TO_IMPORT, handle: imports.importTags } },
    "/imports/:import/files": { POST: { ...TO_IMPORT, handle: imports.importFiles } },
    "/imports/:import/finish": { POST: { needs: TO_MANAGE_REPO, handle: imports.finishImport } },
    "/sessions/:session": {
      GET: { needs: TO_REPO, handle: openCommits.inspectOpenCommit },
      DELETE: { needs: TO_REPO, handle: openCommits.abortOpenCommit },
    },
    "/sessions/:session/finish": { POST: { needs: TO_REPO, handle: openCommits.finishOpenCommit } },
    "/tags/:tag": {
      GET: { needs: TO_READ_REPO, handle: tags.inspectTag },
      PUT: { needs: TO_REPO, handle: tags.setTag },
      DELETE: { needs: TO_REPO, handle: tags.deleteTag },
    },
    "/contents/:content": {
      GET: { needs: TO_READ_REPO, granted: runner.grantsContents, handle: uploads.readContents },
    },
  }),
  ...below("/pipelines/:pipeline", {
    "": {
      GET: { needs: TO_READ_PIPELINE, handle: pipelines.inspectPipeline },
      DELETE: { needs: TO_CHANGE_PIPELINE, query: true, handle: pipelines.deletePipeline },
    },
    "/summary": { GET: { needs: TO_READ_PIPELINE, handle: standing.summarizePipeline } },
    "/versions": { GET: { needs: TO_READ_PIPELINE, query: true, handle: versions.listPipelineVersions } },
    "/versions/:version": { GET: { needs: TO_READ_PIPELINE, handle: versions.inspectPipelineVersion } },
    "/loops": { GET: { needs: TO_CHANGE_PIPELINE, handle: pipelines.showLoops } },
    "/stop": { POST: { needs: TO_CHANGE_PIPELINE, handle: pipelines.stopPipeline } },
    "/start": { POST: { needs: TO_RUN_PIPELINE, handle: pipelines.startPipeline } },
  }),
  ...below("/jobs/:job", {
    "": { GET: { needs: TO_READ_JOB, query: true, handle: jobs.inspectJob } },
    "/summary": { GET: { needs: TO_READ_JOB, handle: jobs.summarizeJob } },
    "/stop": { POST: { needs: [{ permission: "admin", of: jobs.jobRepo }], handle: jobs.stopJob } },
    "/retry": { POST: { needs: TO_RUN_JOB, query: true, handle: jobs.retryJob } },
    "/datums": { GET: { needs: TO_READ_JOB, query: true, handle: jobs.listDatums } },
    "/datums/:datum": {
      GET: {
        needs: [
          { permission: "read", of: jobs.jobRepo },
          { permission: "read", of: jobs.jobInputs },
        ],
        handle: jobs.inspectDatum,
      },
    },
    "/datums/:datum/outputs": { GET: { needs: TO_READ_JOB, query: true, handle: jobs.listDatumOutputs } },
    "/logs": { GET: { needs: TO_READ_JOB, query: true, handle: readLogs } },
  }),
  ...below("/uploads", {
    "": { POST: { needs: TO_OPEN_UPLOAD, granted: runner.grantsNewUpload, handle: uploads.openUpload } },
    "/:upload/reserve": { POST: { ...TO_UPLOAD, body: DIGESTS_BODY, handle: uploads.reserveContents } },
    "/:upload/compose": { POST: { ...TO_UPLOAD, body: DIGESTS_BODY, handle: uploads.composeContents } },
    "/:upload/contents": {
      POST: { ...TO_UPLOAD, body: CONTENTS_BODY, handle: uploads.addInlineContents },
      PUT: { ...TO_UPLOAD, query: true, handle: uploads.addContent },
    },
  }),
  ...below("/runner", {
    "/heartbeat": {
      POST: { needs: FLEET, handle: runner.heartbeat },
      DELETE: { needs: FLEET, query: true, handle: runner.leave },
    },
    "/socket": { GET: { needs: FLEET, query: true, handle: runner.openSocket } },
    "/lease": { POST: { needs: FLEET, handle: runner.lease } },
    "/renew": { POST: { needs: FLEET, handle: runner.renew } },
    "/finish": { POST: { needs: FLEET, body: OUTCOMES_BODY, handle: runner.finish } },
    "/logs": { POST: { needs: FLEET, body: LOGS_BODY, handle: runner.addLogs } },
  }),
};
